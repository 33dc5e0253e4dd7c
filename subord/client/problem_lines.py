"""The problems of a cluster as lines of text, from the document `/v1/errors`."""

from __future__ import annotations

from collections.abc import Iterator

from subord.client.daemon import Document
from subord.client.drawing import MARK_STYLES, NOTE_STYLE, Line, heading
from subord.client.folding import folded, in_order, in_short
from subord.client.text import age, count, printable

STYLES = {
    "duplicate": "bold red",
    "refused": "bold red",
    "silent": "magenta",
    "missing": "bold red",
    "gone": "bold red",
    "lost": "yellow",
}


def has_no_problem(found: Document) -> bool:
    """Whether all nodes answered and no problem was found."""
    return bool(found["complete"]) and not (found["problems"] or found["silent_nodes"] or found["older_nodes"])


def lines(found: Document, *, is_full: bool = False) -> list[Line]:
    """A summary, the note if any, and one line per problem."""
    return [*heading(summary(found), found["note"]), *problem_list(found, is_full=is_full)]


def summary(found: Document) -> str:
    """One line: "11 nodes answered, 2 problems"."""
    problems = len(_one_word(found["problems"])) + found["more"] + bool(found["silent_nodes"])
    down = f", {found['down']} down" if found.get("down") else ""  # missing in answers of older daemons
    text = (
        f"{count(found['nodes'], 'node')} answered{down}, {count(problems, 'problem') if problems else 'no problems'}"
    )
    maintained = found.get("maintained")
    return f"{text}; {count(maintained, 'node')} under maintenance left out" if maintained else text


def problem_list(found: Document, *, is_full: bool = False) -> Iterator[Line]:
    """One line per problem: the nodes, and the problem."""
    for each in _one_word(found["problems"]):
        ago = "" if each["ago_s"] is None else f" (last {age(each['ago_s'])} ago)"
        style = STYLES.get(each["kind"], NOTE_STYLE)
        yield _line(each["addresses"], each["nodes"], f"{printable(each['text'])}{ago}", style, is_full)
    for addresses, nodes, text in _silent(found):
        yield _line(addresses, nodes, text, MARK_STYLES["stale"], is_full)
    if found["older_nodes"]:
        below = 0 if found.get("coverage") else found["older_nodes"] - len(found["older"])
        text = "older release: its problems are not known" + (f", nor those of {below} below" if below > 0 else "")
        yield _line(found["older"], len(found["older"]), text, NOTE_STYLE, is_full)
    if found["more"]:
        yield [(f"and {found['more']} more problems, for which there was no room", NOTE_STYLE)]


def _silent(found: Document) -> Iterator[tuple[list[str], int, str]]:
    """The nodes without an answer, by cause: some addresses, their number, and a text."""
    nodes = found["silent_nodes"]
    if not nodes:
        return
    silent = found["silent"]
    if not found.get("coverage"):  # of an older daemon
        below = nodes - len(silent)
        yield silent, len(silent), "no answer" + (f"; {below} below could not be asked" if below > 0 else "")
        return
    unnamed = nodes - len(silent)
    for each in found["coverage"]["missing"]:
        of_cause = [address for address in each["addresses"] if address in silent]
        if of_cause:
            more = min(unnamed, each["count"] - len(each["addresses"]))
            yield of_cause, len(of_cause) + more, f"no answer ({printable(each['cause'])})"


def _one_word(problems: list[Document]) -> list[Document]:
    """The problems with one for nodes that are down: `missing` and `gone` ones are the same to a reader."""
    found: dict[tuple[str, str], Document] = {}
    for each in problems:
        key = "down" if each["kind"] in ("missing", "gone") else each["kind"], each["text"]
        if key in found:
            both = (found[key], each)
            found[key] = {
                **found[key],
                "nodes": sum(one["nodes"] for one in both),
                "addresses": [address for one in both for address in one["addresses"]],
            }
        else:
            found[key] = each
    return list(found.values())


def _line(addresses: list[str], nodes: int, text: str, style: str, is_full: bool) -> Line:
    if not is_full:
        nodes_text = in_short(addresses, total=nodes)
    else:
        more = nodes - len(addresses)
        nodes_text = folded(sorted(addresses, key=in_order)) + (f" and {more} more" if more > 0 else "")
    return [(nodes_text, ""), (": ", ""), (text, style)]
