"""An event of the cluster as one line of text, from the document `/v1/changes`."""

from __future__ import annotations

import time

from subord.client.daemon import Document
from subord.client.drawing import MARK_STYLES, Line
from subord.client.text import printable

STYLES = {
    "joined": "green",
    "found": "green",
    "returned": "green",
    "restarted": "green",
    "moved": "yellow",
    "missing": MARK_STYLES["missing"],
    "root": "bold green",
    "forgotten": "yellow",
    "maintained": "yellow",
}


def change_line(change: Document) -> Line:
    """One change for display: time, kind, node, and where it stands."""
    clock = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(change["wall"]))
    where = ""
    match change["kind"], change["leader"], change["old"]:
        case "forgotten" | "maintained" | "resumed", _, _:
            where = f'"{printable(change.get("reason") or "")}", by {printable(change.get("by") or "?")}'
        case "moved", leader, old:
            where = f"{old or 'no leader'} -> {leader or 'no leader'}"
        case _, str(leader), _:
            where = f"below {leader}"
        case _, _, str(old):
            where = f"was below {old}"
    guest = ", guest" if change["place"] == "guest" else ""
    kind = printable(str(change["kind"]))
    rest = f"  {change['address']:15}  {where}{guest}".rstrip()
    return [(f"{clock}  ", "dim"), (f"{kind:10}", STYLES.get(kind, "")), (rest, "")]
