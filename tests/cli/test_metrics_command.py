"""`subord metrics` beside the table: the plan, branches and history, as they are typed and printed; wrong input."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from loops import over

from subord.client import exit_codes
from subord.core.carriage import plan
from subord.core.carriage.documents import PLAN, Document
from subord.core.carriage.engine.ranges import Ranges
from subord.core.carriage.orders import Verdict
from subord.core.carriage.plan import PATTERN_CHARS_MAX, PATTERNS_MAX
from subord.core.carriage.reports.coverage import Coverage, Missing
from subord.core.carriage.reports.records import fold
from subord.core.carriage.reports.reports import Fold
from subord.services.metrics import command
from subord.services.metrics.branches.answering import remember
from subord.services.metrics.past import keeping
from subord.services.metrics.questions import words
from subord.services.metrics.record import record_of
from subord.services.metrics.wanted import USUAL
from tests.api.fake_node_api import FakeNode, World
from tests.api.served_node import fake_daemon
from tests.cli.other_operators import publish_after, sign_as
from tests.cli.test_json import fitting
from tests.cli.typed import Said, type_command

OTHER = 'node_cpu_seconds_per_second{mode="idle"}'


def folded(positions: list[int], missing: dict[str, list[int]], *, is_root: bool) -> Fold:
    record = fold([record_of({"node_load1": float(each), OTHER: 0.5}, each) for each in positions])
    absent = tuple(Missing(cause, len(nodes), Ranges.of(nodes).flat()) for cause, nodes in missing.items())
    asked = len(positions) + sum(map(len, missing.values()))
    return Fold(record, Coverage(asked, len(positions), absent), 4.0, is_root=is_root)


class Stage:
    """The tree of eleven nodes; each of the upper ones knows its branch, of which 9 is missing."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.path = ""
        self.world = World()
        for position in (1, 2, 3):
            node = self.world.known[position] = FakeNode(self.world, position)
            below = [each for each in self.world.below(position) if each != 9]
            absent = {"stale": [9]} if position != 3 else {}
            node.orders.folds["metrics"] = folded(below, absent, is_root=position == 1)
            remember(node, record_of({"node_load1": float(position), OTHER: 0.5}, position), 10.0)  # type: ignore[arg-type]
        self.node = self.world.known[7] = FakeNode(self.world, 7)
        self.node.orders.folds["metrics"] = self.world.known[1].orders.folds["metrics"]

    def look(self, *positions: int) -> None:
        for each in positions:
            keeping.keep(self.world.known[each])  # type: ignore[arg-type]

    def type(self, capsys: Said, *words: str) -> tuple[int, list[str], str]:
        return type_command(capsys, "metrics", *words, "--socket", self.path)

    @property
    def plan(self) -> tuple[str, ...] | None:
        held = self.node.tracker.membership.documents.by_name.get(PLAN)
        return None if held is None else plan.read(held.order)

    def hold(self, version: int, *patterns: str, principal: str = "ann") -> None:
        order = plan.order_of(version, self.node.tracker.wall_ms, patterns)
        self.node.tracker.take([(Document(*order), Verdict("", principal, "SHA256:x"))])


@pytest.fixture
def stage(monkeypatch: pytest.MonkeyPatch) -> Iterator[Stage]:
    stage = Stage()
    monkeypatch.setattr(keeping, "monotonic", lambda: stage.now)
    with fake_daemon(stage.node) as stage.path:
        yield stage


def test_the_command_and_the_nodes_agree() -> None:
    assert command.FIGURES == words.FIGURES
    assert (command.HISTORY_S_MIN, command.HISTORY_S_MAX) == (words.HISTORY_S_MIN, words.HISTORY_S_MAX)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"left_out": 2}, "2 metrics left out"),
        ({"is_root": False}, "not complete: nodes have just come or moved, or a branch has not answered; try again"),
    ],
)
def test_figures_that_are_not_complete_say_why(
    stage: Stage, capsys: Said, changed: dict[str, Any], said: str
) -> None:
    whole = folded(list(range(1, 12)), {}, is_root=True)
    stage.node.orders.folds["metrics"] = whole._replace(**changed)
    code, lines, _ = stage.type(capsys)
    assert (code, lines[-1]) == (exit_codes.NOT_REACHED, f"11 of 11 reported, the oldest 4000 ms ago; {said}")


# -- the plan -------------------------------------------------------------------------------------------------------


def test_without_a_plan_the_usual_metrics_are_carried(stage: Stage, capsys: Said) -> None:
    code, lines, _ = stage.type(capsys, "--plan")
    assert (code, lines[0]) == (exit_codes.OK, "the usual metrics are carried")
    assert [each.strip() for each in lines[1:-1]] == list(USUAL)
    _, lines, _ = stage.type(capsys, "--plan", "--json")
    found = fitting("metrics-plan", lines[0])
    assert (found["version"], found["principal"], found["time"], found["patterns"]) == (0, None, None, [])
    assert found["carried"] == list(USUAL)


def test_a_plan_is_published_and_shown(stage: Stage, capsys: Said, tmp_path: Path) -> None:
    file = tmp_path / "plan"
    file.write_text("# ours\n\n  rack_power_watts \nnode_load1\n")
    code, lines, err = stage.type(capsys, "--set-plan", "node_load1", "x*", "--plan-file", str(file))
    assert (code, err) == (exit_codes.OK, "")
    assert stage.plan == ("node_load1", "x*", "rack_power_watts")
    assert lines[0].startswith("version 1 published by ann at 20")
    assert lines[0].endswith(": 3 patterns")
    assert lines[1:] == [
        "  node_load1",
        "  x*",
        "  rack_power_watts",
        "a node carries at most 40 metrics, those of the first patterns first",
    ]
    code, lines, _ = stage.type(capsys, "--set-plan", "@usual", "mine", "--json")
    found = fitting("metrics-plan", lines[0])
    assert (code, found["version"], found["principal"]) == (exit_codes.OK, 2, "ann")
    assert found["carried"] == [*USUAL, "mine"]


def test_patterns_come_from_standard_input(stage: Stage, capsys: Said, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"a\nb")))
    assert stage.type(capsys, "--plan-file", "-")[0] == exit_codes.OK
    assert stage.plan == ("a", "b")


def test_the_usual_metrics_are_carried_again(stage: Stage, capsys: Said) -> None:
    stage.hold(3, "x*")
    code, lines, _ = stage.type(capsys, "--reset-plan")
    assert code == exit_codes.OK
    assert lines[0].startswith("version 4 published by ann")
    assert lines[0].endswith(": the usual metrics")
    assert [each.strip() for each in lines[1:-1]] == list(USUAL)


def test_a_conflict_is_shown(stage: Stage, capsys: Said) -> None:
    stage.hold(3, "a")
    stage.hold(3, "b")
    _, lines, _ = stage.type(capsys, "--plan")
    assert "does not count: publish again" in lines[-1]


def test_a_dry_run_changes_nothing(stage: Stage, capsys: Said) -> None:
    code, lines, _ = stage.type(capsys, "--set-plan", "a", "--dry-run")
    assert (code, lines[0], stage.plan) == (exit_codes.OK, "version 1 would be published by ann: 1 pattern", None)
    code, lines, _ = stage.type(capsys, "--reset-plan", "--dry-run", "--json")
    assert fitting("metrics-plan", lines[0])["patterns"] == ["@usual"]
    assert stage.plan is None


@pytest.mark.parametrize(("options", "words"), [((), "refused: metrics/plan"), (("--dry-run",), "would be refused")])
def test_an_operator_without_the_power(
    stage: Stage, capsys: Said, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...], words: str
) -> None:

    sign_as("mia", monkeypatch)
    code, lines, err = stage.type(capsys, "--set-plan", "a", *options)
    assert (code, lines, stage.plan) == (exit_codes.PERMISSION, [], None)
    assert words in err
    assert "othing was changed" in err


def test_of_two_operators_at_once_one_is_told(stage: Stage, capsys: Said, monkeypatch: pytest.MonkeyPatch) -> None:
    from subord.services.metrics.plan import publishing

    publish_after(lambda: stage.hold(2, "theirs", principal="bob"), monkeypatch, publishing)
    code, lines, err = stage.type(capsys, "--set-plan", "ours")
    assert (code, lines) == (exit_codes.NOT_REACHED, [])
    assert "version 2 of bob counts" in err


LONG = "x" * (PATTERN_CHARS_MAX + 1)


@over(
    ("typed", "complaint"),
    [
        (["--set-plan"], "at least one pattern"),
        (["--set-plan", ""], "--set-plan: '' is empty"),
        (["--set-plan", LONG], f"is longer than {PATTERN_CHARS_MAX} characters"),
        (["--set-plan", "a\tb"], "cannot be printed"),
        (["--set-plan", "@all"], "there is only @usual"),
        (["--set-plan", "x_total"], "write x_per_second"),
        (["--set-plan", 'x_total{a="*"}'], 'write x_per_second{a="*"}'),
        (
            ["--set-plan", *[f"m{each}" for each in range(PATTERNS_MAX + 1)]],
            f"at most {PATTERNS_MAX} patterns, not 65",
        ),
        (["--plan-file", "{empty}"], "at least one pattern"),
        (["--plan-file", "{long}"], "long, line 3: 'xxx"),
        (["--plan-file", "{binary}"], "is no text in UTF-8"),
        (["--plan-file", "{huge}"], "more than 65536 bytes"),
        (["--plan-file", "{none}"], "No such file"),
        (["--plan-file", "{folder}"], "Is a directory"),
        (["node_load1", "--plan"], "--plan takes neither NAME nor"),
        (["node_load1", "--set-plan", "a"], "--set-plan takes neither NAME nor"),
        (["--plan", "--top", "3"], "--plan takes neither NAME nor --top"),
        (["--plan", "--reset-plan"], "--plan and --reset-plan do not go together"),
        (["--plan", "--set-plan", "a"], "--plan and --set-plan do not go together"),
        (["--reset-plan", "--plan-file", "{long}"], "do not go together"),
        (["--dry-run"], "--dry-run and --key are for"),
        (["--plan", "--key", "k"], "--dry-run and --key are for"),
        (["", "--top", "2"], "NAME is empty"),
        (["--by", "branch"], "--by branch needs NAME"),
        (["a", "--by", "rack"], "invalid choice"),
        (["a", "--by", "branch", "--top", "2"], "--top and --by do not go together"),
        (["--history", "10m", "--top", "2"], "--top and --history do not go together"),
        (["--of", "mean"], "--of says which figure"),
        (["--history", "31min"], "from 30s to 30min"),
        (["--history", "29s"], "from 30s to 30min"),
        (["--history", "soon"], "must be a time such as"),
        (["--history", "10m", "--of", "mode"], "invalid choice"),
        (["a", "b"], "unrecognized arguments"),
    ],
)
def test_wrong_input(stage: Stage, capsys: Said, tmp_path: Path, typed: list[str], complaint: str) -> None:
    files = {
        "empty": b"# nothing\n\n",
        "long": b"a\n\n" + LONG.encode(),
        "binary": b"\xff\xfe",
        "huge": b"# " + b"x" * 70_000,
    }
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    (tmp_path / "folder").mkdir(exist_ok=True)
    places = {name: str(tmp_path / name) for name in (*files, "none", "folder")}
    typed = [places[each[1:-1]] if each.startswith("{") else each for each in typed]
    code, lines, err = stage.type(capsys, *typed)
    assert (code, lines) == (exit_codes.USAGE, []), err
    assert complaint in err
    assert len(err.splitlines()) == 1
    assert stage.node.orders.given == []
    assert stage.plan is None


# -- branches -------------------------------------------------------------------------------------------------------


def test_a_row_for_each_branch(stage: Stage, capsys: Said) -> None:
    code, lines, _ = stage.type(capsys, "node_load1", "--by", "branch")
    assert code == exit_codes.NOT_REACHED
    assert [" ".join(line.split()) for line in lines[:-1]] == [
        "node_load1 nodes sum least median 95 % greatest",
        "10.0.0.1 alone 1 1 1 1 1 1",
        "10.0.0.2 and below 6 40 2 5 10 11 1 of 7 missing: 10.0.0.9 stale",
        "10.0.0.3 and below 3 16 3 6 6 7",
        "whole cluster 10 57 1 5 10 11",
    ]
    assert lines[-1] == "10 of 11 reported, the oldest 4000 ms ago; missing: 10.0.0.9 stale"


def test_the_document_of_branches(stage: Stage, capsys: Said) -> None:
    _, lines, _ = stage.type(capsys, "node_*", "--by", "branch", "--json")
    found = fitting("metrics-branch", lines[0])
    assert [(each["address"], each["alone"]) for each in found["branches"]] == [
        ("10.0.0.1", True),
        ("10.0.0.2", False),
        ("10.0.0.3", False),
    ]
    assert [each["coverage"]["complete"] for each in found["branches"]] == [True, False, True]
    assert [each["name"] for each in found["metrics"]] == [OTHER, "node_load1"]
    assert sum(each["metrics"][1]["count"] for each in found["branches"]) == found["metrics"][1]["count"]
    assert (found["told"], found["asked"], found["complete"]) == (10, 11, False)


def test_a_branch_that_does_not_answer_is_named(stage: Stage, capsys: Said) -> None:
    stage.world.gone.add(3)
    code, lines, _ = stage.type(capsys, "node_load1", "--by", "branch")
    assert code == exit_codes.NOT_REACHED
    assert next(line for line in lines if line.startswith("10.0.0.3")).endswith("no answer: down")


def test_a_root_that_has_published_nothing_is_named(stage: Stage, capsys: Said) -> None:
    remember(stage.world.known[1], None, 10.0)  # type: ignore[arg-type]
    _, lines, _ = stage.type(capsys, "node_load1", "--by", "branch")
    assert "1 of 1 missing: 10.0.0.1 no report" in next(line for line in lines if "alone" in line)


def test_without_the_root_there_are_no_branches(stage: Stage, capsys: Said) -> None:
    stage.world.hung.add(1)
    code, lines, _ = stage.type(capsys, "node_load1", "--by", "branch", "--timeout", "0.3")
    assert code == exit_codes.NOT_REACHED
    assert lines == [lines[-1]]
    assert "missing: 10.0.0.1" in lines[-1]


@pytest.mark.parametrize("liar", [1, 2])
@pytest.mark.parametrize("lie", [b"\xc1", words.encode([1, b"x", b"y", []]), words.encode([2, 3])])
def test_what_cannot_be_read_is_said(stage: Stage, capsys: Said, liar: int, lie: bytes) -> None:
    stage.world.lying[liar] = lie
    for typed in (["node_load1", "--by", "branch"], ["--by", "branch", "--history", "10m"]):
        code, lines, _ = stage.type(capsys, *typed)
        assert code == exit_codes.NOT_REACHED
        assert f"10.0.0.{liar} unreadable fold" in lines[-1] or "no answer: unreadable fold" in lines[2]


@pytest.mark.parametrize("typed", [("--by", "branch"), ("--history", "10m")])
def test_an_unknown_name(stage: Stage, capsys: Said, typed: tuple[str, ...]) -> None:
    stage.look(1)
    code, lines, err = stage.type(capsys, "nosuch", *typed)
    assert (code, lines) == (exit_codes.NO_SUCH_NODE, [])
    assert f"no metric 'nosuch' is known; there are: {OTHER}, node_load1" in err


# -- history --------------------------------------------------------------------------------------------------------


def moments(stage: Stage, *loads: float) -> None:
    """One each ten seconds, at the root and its subordinates."""
    for load in loads:
        for position in (1, 2, 3):
            node = stage.world.known[position]
            before = node.orders.folds["metrics"]
            record = record_of({"node_load1": load * position, OTHER: 0.5}, position)
            node.orders.folds["metrics"] = before._replace(record=record)
        stage.look(1, 2, 3)
        stage.now += 10.0


def test_the_last_minutes(stage: Stage, capsys: Said) -> None:
    moments(stage, 1, 1, 1, 8, 8, 8)
    code, lines, _ = stage.type(capsys, "node_load1", "--history", "1min")
    assert code == exit_codes.OK
    assert lines[0].split() == ["metric", "mean,", "1", "min", "least", "greatest", "last"]
    assert lines[1].split() == ["node_load1", "▁▅██", "1", "8", "8"]
    assert lines[2].startswith("10.0.0.1, the root, knows the last 1 min (since 20")
    assert lines[2].endswith(", of 10 of 11 nodes")


def test_a_new_root_says_since_when_it_knows(stage: Stage, capsys: Said) -> None:
    moments(stage, 1, 2)
    code, lines, _ = stage.type(capsys, "node_load1", "--history", "10min")
    assert code == exit_codes.OK
    assert lines[1].split() == ["node_load1", "▁█", "1", "2", "2"]
    assert "knows the last 20 s (since 20" in lines[2]
    assert lines[2].endswith("; nothing is known of the time before")


def test_a_root_without_a_moment(stage: Stage, capsys: Said) -> None:
    code, lines, _ = stage.type(capsys, "--history", "10min")
    assert code == exit_codes.OK
    assert lines[0] == "10.0.0.1, the root, knows no moment yet"


def test_the_document_of_a_history(stage: Stage, capsys: Said) -> None:
    moments(stage, 1, 2)
    _, lines, _ = stage.type(capsys, "--history", "5min", "--of", "greatest", "--json")
    found = fitting("metrics-history", lines[0])
    (branch,) = found["branches"]
    assert (found["figure"], found["seconds"], branch["whole"]) == ("greatest", 300, True)
    assert (branch["ages_s"], branch["known_s"], branch["told"], branch["asked"]) == (
        [20, 10],
        20,
        [10, 10],
        [11, 11],
    )
    load = next(each for each in branch["metrics"] if each["name"] == "node_load1")
    assert (load["values"], load["least"], load["greatest"], load["last"]) == ([1, 2], 1, 2, 2)


def test_the_history_of_each_branch(stage: Stage, capsys: Said) -> None:
    moments(stage, 1, 2)
    stage.world.gone.add(3)
    code, lines, _ = stage.type(capsys, "--by", "branch", "--history", "5min", "--json")
    found = fitting("metrics-history", lines[0])
    assert code == exit_codes.NOT_REACHED
    assert [(each["address"], each["whole"]) for each in found["branches"]] == [
        ("10.0.0.1", True),
        ("10.0.0.2", False),
    ]
    assert (found["asked"], found["told"], found["complete"]) == (3, 2, False)
    assert found["missing"][0]["nodes"] == "10.0.0.3"


def test_a_node_that_is_no_root_just_now(stage: Stage, capsys: Said) -> None:
    stage.world.known[1].orders.folds["metrics"] = folded([1], {}, is_root=False)
    code, _, _ = stage.type(capsys, "--history", "5min")
    assert code == exit_codes.NOT_REACHED


def test_without_unicode_the_line_is_ascii(stage: Stage, capsys: Said, monkeypatch: pytest.MonkeyPatch) -> None:
    from subord.client import drawing
    from subord.services.metrics.past import showing

    moments(stage, 1, 1, 1, 8, 8, 8)
    monkeypatch.setattr(showing, "strokes_for", lambda _: drawing.STROKES_ASCII)
    _, lines, _ = stage.type(capsys, "node_load1", "--history", "1min")
    assert lines[1].split()[1] == ".+@@"
