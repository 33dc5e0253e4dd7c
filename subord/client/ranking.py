"""What nodes measure, as text. Two significant digits; a dash where nothing was measured."""

from __future__ import annotations

from subord.client.daemon import Document
from subord.client.text import age, columns, count, printable

UNKNOWN = "-"
ROUND_TRIP_S_SHOWN_MAX = 10.0
ROUND_TRIP_MS_SHOWN_MIN = 0.001


def round_trip(seconds: float | None) -> str:
    """ "20 ms", "0.2 ms", "1.5 s"; "-": not measured."""
    if seconds is None:
        return UNKNOWN
    if seconds > ROUND_TRIP_S_SHOWN_MAX:
        return f"over {ROUND_TRIP_S_SHOWN_MAX:.0f} s"
    if seconds >= 1:
        return f"{_two_digits(seconds)} s"
    return f"{_two_digits(max(1000 * seconds, ROUND_TRIP_MS_SHOWN_MIN))} ms"


def performance(jobs: float | None) -> str:
    """ "about 90 jobs/h"; "-": not known."""
    return UNKNOWN if jobs is None else f"about {_two_digits(jobs)} jobs/h"


def _two_digits(quantity: float) -> str:
    rounded = float(f"{quantity:.2g}")
    return f"{rounded:,.0f}" if 10 <= rounded < 1e6 else f"{rounded:.2g}"


def of_row(row: Document, shows: tuple[str, ...]) -> list[str]:
    """The numbers beside a node of a tree: "rtt" to its leader, "performance"; older daemons send neither."""
    texts = {"rtt": round_trip(row.get("round_trip_s")), "performance": performance(row.get("performance"))}
    return [texts[each] for each in shows]


def in_one_line(ranking: Document, has_leader: bool) -> str:
    """One line: "latency mapping, about 90 jobs/h, leader 0.2 ms away"."""
    own = "performance not known" if ranking["performance"] is None else performance(ranking["performance"])
    parts = [f"{printable(ranking['mapping'])} mapping", own]
    if has_leader:
        away_s = ranking["leader_round_trip_s"]
        parts.append("distance of the leader not measured" if away_s is None else f"leader {round_trip(away_s)} away")
    return ", ".join(parts)


def ranking_lines(ranking: Document, leader: str | None) -> list[str]:
    """The numbers by which a node chooses its leader."""
    facts = [
        ("mapping", printable(ranking["mapping"])),
        ("performance", _classed(ranking["performance"], ranking["performance_class"], UNKNOWN)),
        ("stands by", _classed(ranking["standing"], ranking["standing_class"], "nothing: after all known ones")),
        ("level", _level(ranking)),
        ("moves", _moves(ranking)),
    ]
    lines = ["", "ranking:", *columns(facts, "  ")]
    if not ranking["near"]:
        return [*lines, "", "no node is measured yet"]
    rows = [["", "address", "position", "round trip", "performance", "measured"]]
    rows += [_near(each, leader) for each in ranking["near"]]
    return [*lines, "", "measured, nearest first:", *columns(rows, " ")]


def _classed(jobs: float | None, number: int, unknown: str) -> str:
    return f"{performance(jobs)}, class {number}" if number else unknown


def _level(ranking: Document) -> str:
    wanted = ranking["wanted_level"]
    return f"{ranking['level']} in the real tree, " + ("wanted not known" if wanted is None else f"wanted {wanted}")


def _moves(ranking: Document) -> str:
    made = f"{count(ranking['moves'], 'move')} for a better rank or a nearer leader"
    return f"{made}, {ranking['moves_held']} held back: too many in this hour"


def _near(each: Document, leader: str | None) -> list[str]:
    mark = "*" if each["address"] == leader else ""
    numbers = [round_trip(each["round_trip_s"]), performance(each["performance"]), f"{age(each['ago_s'])} ago"]
    return [mark, each["address"], str(each["position"]), *numbers]
