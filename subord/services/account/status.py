"""`subord account status`: what waits in the spools of the nodes, which nodes are sinks, and which reach one."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from subord.client.daemon import Document
from subord.client.folding import folded
from subord.client.naming import names_for
from subord.client.text import age, count
from subord.services.asking import asked_nodes, shown_coverage

SPOOLS = {
    "keeps": "",
    "fails": "its spool cannot be read or written: its log says why",
    None: "keeps no records of writers, because node.state_directory is not set",
}
SINKS = {"stores": "sink, stores records", "fails": "sink, cannot store: its log says why", None: ""}


def run(arguments: argparse.Namespace) -> int:
    """Prints a line for nodes that say the same, then the coverage; OK if it is whole."""
    found = asked_nodes(arguments, "account")
    names = names_for(arguments, found)
    return shown_coverage(arguments, found, [_line(each, names) for each in found["spools"]])


def _line(spools: Document, names: dict[str, str]) -> str:
    unnamed = spools["nodes"] - len(spools["addresses"])
    more = f" and {unnamed} more" if unnamed else ""
    return f"{folded(names.get(each, each) for each in spools['addresses'])}{more}: {'; '.join(_parts(spools))}"


def _parts(spools: Document) -> Iterator[str]:
    if spools["sink"]:
        yield SINKS[spools["sink"]]
    if spools.get("missing_max"):
        many = count(spools["missing_max"], "record")
        yield f"its database was restored to an earlier state and lacks up to {many} (table subord_missing)"
    if spools["oldest_s_max"] is not None:
        kib = -(-spools["bytes_max"] // 1024)
        many = count(spools["records_max"], "record")
        yield f"up to {many} ({kib} KiB) wait, the oldest up to {age(spools['oldest_s_max'])}"
    elif spools["spool"] != "fails":
        yield "nothing waits"
    if spools["spool"] != "keeps":
        yield SPOOLS[spools["spool"]]
    if not spools["reaches_sink"] and spools["sink"] is None:
        yield "reaches no sink"
