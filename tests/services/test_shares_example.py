"""docs/shares.md: the printed decision is what the bank makes of the printed reports, and its words are in use."""

from __future__ import annotations

import json
import re
from itertools import takewhile
from pathlib import Path

import pytest
from loops import over

from subord.core.carriage.shares import bounds
from subord.core.carriage.shares.interface import Branch, Decision
from subord.runtime.shares import state
from subord.services.shares import policy, tickets
from subord.services.shares.actuators import queues
from subord.services.shares.agent import GRACE_S
from subord.services.shares.bank import ADJUSTMENT, Bank
from subord.services.shares.commands import status, why
from subord.services.shares.commands.status import BRANCH_HEAD, CLASS_HEAD
from subord.services.shares.tickets import whole

PAGE = (Path(__file__).parents[2] / "docs" / "shares.md").read_text(encoding="utf-8")
ANSWERS = Path(__file__).parent / "shares_example.json"
"""Of control sockets in a lab that `netns-lab/lab up --nodes 7 --fanout 2` made."""
CLASSES = ("web", "batch", "rest")
WANTED = (60.0, 30.0, 10.0)
BRANCHES = ("10.0.0.1", "10.0.0.2", "10.0.0.3")
PRINTED = 0.11
"""All numbers are printed with one digit: a step of others may differ by one in the last one."""
STEPS = ("deposit", "want", "correction", "reward", "share")


def block(name: str) -> list[str]:
    (found,) = re.findall(rf"^<!-- {name} -->\n```text\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
    return str(found).splitlines()


def of_branches() -> list[str]:
    """A line for each class of each branch of the root."""
    lines = block("shares-status")
    start = next(place for place, line in enumerate(lines) if line.startswith("branch"))
    return list(takewhile(lambda line: "root" not in line, lines[start + 1 :]))


def reports() -> list[Branch]:
    """Those of the branches, as printed."""
    form = r"(?:(\S+) (?:alone|and below) +(\d+) .*? s)? *(\w+) +(.*)"
    cells = [re.fullmatch(form, line) for line in of_branches()]
    found: list[Branch] = []
    for place in range(0, len(cells), len(CLASSES)):
        group = [each.groups() for each in cells[place : place + len(CLASSES)] if each is not None]
        assert (group[0][0], [each[2] for each in group]) == (BRANCHES[len(found)], list(CLASSES))
        numbers = [each[3].split() for each in group]
        allocation, usage = ([float(row[column]) for row in numbers] for column in (1, 2))
        found.append(Branch(allocation, usage, [row[3] == "yes" for row in numbers], int(group[0][1])))
    return found


def table(leader: str) -> list[list[str]]:
    """Of a leader in the reasons, with its heads."""
    lines = block("shares-why")
    start = next(place for place, line in enumerate(lines) if line.startswith(f"{leader}, for "))
    return [line.split() for line in lines[start + 2 : start + 6]]


def decided() -> Decision:
    return Bank().decide(reports(), WANTED, [0.0] * len(CLASSES))


def test_the_commands_print_what_is_shown() -> None:
    """Of the answers of the cluster, as they came."""
    answers = json.loads(ANSWERS.read_text(encoding="utf-8"))
    shown = block("shares-status")
    assert shown[1:-1] == list(status.lines_of(answers["status"], {}, is_whole=True))
    assert shown[-1].startswith("7 of 7 answered in ")
    reasons = list(why.lines_of(answers["why"], {}))
    assert block("shares-why")[1:] == reasons[: reasons.index("in tickets, hundredths of a node:")]


def test_the_reports_of_the_page_are_read() -> None:
    assert [each.nodes for each in reports()] == [1, 3, 3]
    assert [each.needy[2] for each in reports()] == [False, True, False]


def test_the_row_of_the_page_is_what_the_bank_makes_of_its_reports() -> None:
    head, *rows = table("10.0.0.1")
    steps = {each.word: each for each in decided().steps}
    for place, row in enumerate(rows):
        shown = dict(zip(head, row, strict=True))
        assert shown["class"] == CLASSES[place]
        assert float(shown["wanted"]) == WANTED[place]
        assert float(shown["got"]) == reports()[1].allocation[place]
        assert float(shown["used"]) == reports()[1].usage[place]
        for word in STEPS:
            assert float(shown[word]) == pytest.approx(steps[word].columns[place][1], abs=PRINTED), (row, word)
        assert steps["withdrawal"].totals[place] == pytest.approx(0, abs=PRINTED)


def test_the_row_in_the_reasons_is_that_of_the_status() -> None:
    rows = decided().rows
    shown = [float(line.split()[-4]) for line in of_branches()]
    assert shown == pytest.approx([each for row in rows for each in row], abs=PRINTED)
    assert [float(line[-1]) for line in table("10.0.0.1")[1:]] == shown[3:6]


def test_the_sum_by_hand() -> None:
    """Each number of the list is that of the steps, in tickets of all seven nodes."""
    alone, second, third = reports()
    totals = {each.word: each.totals[2] * 7 / 3 for each in decided().steps}
    wanted = 28.7
    assert second.usage[2] + ADJUSTMENT == wanted
    assert max(alone.usage[2], third.usage[2]) - ADJUSTMENT < policy.FLOOR
    assert 3 * wanted + 4 * policy.FLOOR == pytest.approx(90.1) == pytest.approx(totals["want"])
    part = (90.1 - 7 * 10) / (90.1 - 7 * policy.FLOOR)
    assert [round(each, 3) for each in (90.1 - 70, 90.1 - 7, part)] == [20.1, 83.1, 0.242]
    corrected = wanted - part * (wanted - policy.FLOOR)
    assert round(wanted - corrected, 1) == 6.7
    assert totals["deposit"] == pytest.approx(sum(each.allocation[2] * each.nodes for each in (alone, third)))
    rewarded = corrected + totals["deposit"] / second.nodes
    assert round(rewarded, 1) == 23.3
    head, *rows = table("10.0.0.1")
    want, correction = head.index("want"), head.index("correction")
    web, batch = (float(row[want]) + float(row[correction]) for row in rows[:2])
    assert (round(web, 1), round(batch, 1), round(web + batch + 23.3, 1)) == (50.0, 25.2, 98.5)
    assert 100 * rewarded / (web + batch + rewarded) == pytest.approx(23.7, abs=PRINTED)
    sums = (
        "26.7 + 2 = 28.7",
        "3 * 28.7 + 1 + 3 * 1 = 90.1",
        "0.242 * (28.7 - 1) = 6.7",
        "4 / 3 = 1.3",
        "50.0 + 25.2 + 23.3 = 98.5",
    )
    for each in (*sums, "20.1 of the 83.1 tickets", "scaled to 100: 23.7"):
        assert each in PAGE, each


def test_the_whole_tickets_are_those_of_the_row() -> None:
    row = [float(line[-1]) for line in table("10.0.0.2")[1:]]
    shown = ", ".join(f"{name} {count}" for name, count in zip(CLASSES, whole(row), strict=True))
    assert f"  its row, of 100 tickets: {shown}" in block("shares-why")


def test_the_heads_are_those_of_the_commands() -> None:
    status = [tuple(line.split()) for line in block("shares-status")]
    assert CLASS_HEAD in status
    assert BRANCH_HEAD in status
    for leader in ("10.0.0.1", "10.0.0.2"):
        assert tuple(table(leader)[0]) == (*why.HEAD, *STEPS)
    assert set(STEPS) < set(why.STEPS)


@over("word", state.WORDS)
def test_every_state_is_explained(word: str) -> None:
    assert re.search(rf"^\| [^|]*`{word}`[^|]* \|", PAGE, re.MULTILINE), word


def test_the_bounds_are_those_of_the_program() -> None:
    assert f"2 to {bounds.CLASSES_MAX}" in PAGE
    assert f"{bounds.ROUND_MS_MIN / 1000} s to {bounds.ROUND_MS_MAX // 60_000} min" in PAGE
    assert f"{tickets.TICKETS}, or {tickets.TICKETS_OF_MANY:,} with more than {tickets.CLASSES_OF_TICKETS}" in PAGE
    assert f"| branches of a leader | {bounds.BRANCHES_MAX:,} |" in PAGE
    assert f"| a queue program | {queues.RUN_S_MAX:g} s;" in PAGE
    assert f"the weights of its node stay for {GRACE_S:g} s" in PAGE
