"""`subord shares`: what is published, what is shown, and the exit codes."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from loops import over

from subord.client import exit_codes
from subord.client.orders import publishing
from subord.core.carriage.shares import bounds
from subord.core.carriage.shares.interface import LeftOut
from subord.core.carriage.shares.plan import Plan, read
from subord.services.shares import command
from tests.api.served_node import fake_daemon, fixed_answer
from tests.api.shared_nodes import SHARES, SharedNodes
from tests.cli.other_operators import publish_after, publish_before, sign_as
from tests.cli.test_json import fitting
from tests.cli.typed import Said, type_command

TEXT = "web=60,batch=30,rest=10"


class Stage(SharedNodes):
    """The tree of eleven nodes, and the commands at the seventh."""

    def __init__(self) -> None:
        super().__init__()
        self.path = ""

    def type(self, capsys: Said, *words: str) -> tuple[int, list[str], str]:
        return type_command(capsys, "shares", *words, "--socket", self.path)

    @property
    def plan(self) -> Plan | None:
        return None if self.held is None else read(self.held.order)

    def serve(self) -> Plan:
        """All nodes follow shares."""
        plan = self.hold(2, *SHARES)
        self.divide(plan)
        self.know(*plan.classes)
        self.say("obeys")
        return plan


@pytest.fixture
def stage() -> Iterator[Stage]:
    stage = Stage()
    stage.know("web", "batch", "rest")
    with fake_daemon(stage.node) as stage.path:
        yield stage


def test_the_command_and_the_document_agree() -> None:
    assert command.ROUND_S_MIN * 1000 == bounds.ROUND_MS_MIN
    assert command.ROUND_S_MAX * 1000 == bounds.ROUND_MS_MAX


# -- set and off ----------------------------------------------------------------------------------------------------


def test_shares_are_published_and_shown(stage: Stage, capsys: Said) -> None:
    code, lines, err = stage.type(capsys, "set", TEXT)
    assert (code, err) == (exit_codes.OK, "")
    assert lines[0].startswith("version 1 published by ann at 20")
    assert lines[0].endswith(" UTC: a round lasts 1 s")
    assert lines[1:] == [
        "class  wanted",
        "web        60",
        "batch      30",
        "rest       10",
    ]
    assert stage.plan is not None
    assert (stage.plan.classes, stage.plan.wanted) == (("web", "batch", "rest"), (60.0, 30.0, 10.0))
    assert stage.plan.round_s == 1.0


def test_the_round_stays_until_another_is_given(stage: Stage, capsys: Said) -> None:
    rounds = []
    for words in (["set", TEXT, "--round", "0.3s"], ["off"], ["set", TEXT], ["set", TEXT, "--round", "10min"]):
        assert stage.type(capsys, *words)[0] == exit_codes.OK
        assert stage.plan is not None
        rounds.append(stage.plan.round_s)
    assert rounds == [0.3, 0.3, 0.3, 600.0]


def test_a_round_is_of_whole_milliseconds(stage: Stage, capsys: Said) -> None:
    code, lines, _ = stage.type(capsys, "set", TEXT, "--round", "0.3336s")
    assert code == exit_codes.OK
    assert lines[0].endswith(": a round lasts 0.334 s")


def test_shares_are_switched_off(stage: Stage, capsys: Said) -> None:
    stage.serve()
    code, lines, _ = stage.type(capsys, "off", "--dry-run")
    assert (code, lines) == (exit_codes.OK, ["version 3 would be published by ann: shares are off"])
    assert stage.plan is not None
    assert not stage.plan.is_off
    code, lines, _ = stage.type(capsys, "off", "--json")
    found = fitting("shares-off", lines[0])
    assert (code, found["version"], found["off"], found["classes"]) == (exit_codes.OK, 3, True, [])
    assert stage.plan.is_off
    assert stage.node.orders.given == [], "no node is asked"


def test_a_dry_run_changes_nothing(stage: Stage, capsys: Said) -> None:
    code, lines, _ = stage.type(capsys, "set", TEXT, "--dry-run")
    assert (code, lines[0]) == (exit_codes.OK, "version 1 would be published by ann: a round lasts 1 s")
    code, lines, _ = stage.type(capsys, "set", TEXT, "--dry-run", "--json")
    found = fitting("shares-set", lines[0])
    assert (found["principal"], found["time"], found["unknown_nodes"]) == ("ann", None, 0)
    assert stage.plan is None


def test_nodes_without_a_class_are_named(stage: Stage, capsys: Said) -> None:
    stage.know("web", positions=(4, 5))
    stage.world.lying[6] = b"\xff"
    stage.world.cut_off = {9}
    code, lines, _ = stage.type(capsys, "set", TEXT)
    assert code == exit_codes.OK
    assert lines[5:] == [
        "class batch is not configured on 2 of 9 nodes, so nothing is divided there: 10.0.0.[4-5]",
        "class rest is not configured on 2 of 9 nodes, so nothing is divided there: 10.0.0.[4-5]",
        "the classes of 1 node are not known: 10.0.0.9 moved",
        "the classes of 1 node are not known: of another release",
    ]
    _, lines, _ = stage.type(capsys, "set", TEXT, "--json")
    found = fitting("shares-set", lines[0])
    assert [(each["name"], each["nodes"], each["lacking"]) for each in found["known"]] == [
        ("web", 9, 0),
        ("batch", 7, 2),
        ("rest", 7, 2),
    ]
    assert found["unknown_nodes"] == 2


def test_a_class_of_nodes_that_the_shares_leave_out_is_named(stage: Stage, capsys: Said) -> None:
    stage.know("web", positions=(4, 5))
    _, lines, _ = stage.type(capsys, "set", "web=60,batch=40", "--dry-run")
    kept = "gets no share: its groups keep the weights from before"
    assert f"class rest, configured on 9 of 11 nodes, {kept}" in lines


def test_an_unknown_class_is_refused_unless_forced(stage: Stage, capsys: Said) -> None:
    text = "web=60,rest=30,wep=10"
    for dry in ((), ("--dry-run",)):
        code, lines, err = stage.type(capsys, "set", text, *dry)
        assert (code, lines, stage.plan) == (exit_codes.USAGE, [], None)
        assert "no class wep is known: correct the name; known classes: batch, rest, web" in err
        assert "--force publishes nevertheless; nothing was changed" in err
    code, lines, _ = stage.type(capsys, "set", text, "--force")
    assert code == exit_codes.OK
    assert lines[-1] == "class wep is not configured on 11 of 11 nodes, so nothing is divided there: 10.0.0.[1-11]"


def test_a_class_that_only_the_former_document_has_is_unknown(stage: Stage, capsys: Said) -> None:
    stage.hold(1, ("web", 50_000), ("old", 50_000))
    code, _, err = stage.type(capsys, "set", "web=60,old=40")
    assert code == exit_codes.USAGE
    assert "no class old is known: correct the name; known classes: batch, rest, web;" in err


def test_without_any_answer_nothing_is_published(stage: Stage, capsys: Said) -> None:
    """Answers that cannot be read are none."""
    stage.world.lying = dict.fromkeys(range(1, 12), b"\xff")
    code, lines, err = stage.type(capsys, "set", TEXT)
    assert (code, lines, stage.plan) == (exit_codes.TRY_AGAIN, [], None)
    assert "no node has told which classes it has" in err
    assert "nothing was changed" in err
    assert stage.type(capsys, "set", TEXT, "--force")[0] == exit_codes.OK


def text_of(classes: int) -> str:
    each = f"{1000 // classes / 10:.1f}"
    first = 100 - (classes - 1) * float(each)
    return ",".join([f"c0={first:.1f}", *(f"c{place}={each}" for place in range(1, classes))])


@over(
    ("typed", "complaint"),
    [
        (["set", "web=60,batch=30"], "the shares sum to 90, not to 100: 10 are missing"),
        (["set", "web=60,batch=50"], "sum to 110, not to 100: 10 are too many"),
        (["set", "web=100"], "web is the only class"),
        (["set", "web=50,web=50"], "class web stands there twice"),
        (["set", "web"], '"web" is no share'),
        (["set", ""], '"" is no share'),
        (["set", "Web=50,rest=50"], '"Web" is no name of a class'),
        (["set", "web=-1,rest=101"], '"-1" is no percent'),
        (["set", "web=99.5,rest=0.5"], "keeps 1 on every node"),
        (["set", text_of(127)], "127 classes are too many: at most 126"),
        (["set", "web=50,rest\x1b=50"], "is no name of a class"),
    ],
)
def test_wrong_shares_change_nothing(typed: list[str], complaint: str, capsys: Said) -> None:
    stage = Stage()
    with fake_daemon(stage.node) as stage.path:
        code, lines, err = stage.type(capsys, *typed)
    assert (code, lines, stage.plan) == (exit_codes.USAGE, [], None)
    assert complaint in err
    assert err.endswith("; nothing was changed\n")
    assert len(err.splitlines()) == 1
    assert stage.node.orders.given == [], "no node is asked"


@over(
    ("typed", "complaint"),
    [
        (["set"], "required: SHARES"),
        (["set", TEXT, "--round", "0.2s"], "must be a time from 0.3s to 10min"),
        (["set", TEXT, "--round", "11min"], "must be a time from 0.3s to 10min"),
        (["set", TEXT, "--round", "soon"], "must be a time such as"),
        (["set", TEXT, "more"], "unrecognized arguments"),
        (["status", "10.0.0.4", "--all"], "give NODES or --all, not both"),
        (["why"], "required: NODE"),
        (["why", "10.0.0.[4-5]"], "names 2 nodes"),
        (["on"], "invalid choice"),
    ],
)
def test_wrong_words(typed: list[str], complaint: str, capsys: Said) -> None:
    stage = Stage()
    with fake_daemon(stage.node) as stage.path:
        code, lines, err = stage.type(capsys, *typed)
    assert (code, lines) == (exit_codes.USAGE, []), err
    assert complaint in err
    assert len(err.splitlines()) == 1
    assert stage.node.orders.given == []


def test_126_classes_are_published(stage: Stage, capsys: Said) -> None:
    stage.know(*(f"c{each}" for each in range(126)))
    code, lines, err = stage.type(capsys, "set", text_of(126))
    assert (code, err, len(lines)) == (exit_codes.OK, "", 2 + 126)
    assert stage.plan is not None
    stage.divide(stage.plan)
    stage.say("obeys")
    code, lines, _ = stage.type(capsys, "status")
    assert code == exit_codes.OK
    assert max(map(len, lines)) <= 100
    code, lines, _ = stage.type(capsys, "why", "10.0.0.7")
    assert code == exit_codes.OK
    assert max(map(len, lines)) <= 100
    assert lines[2].startswith("  its row, of 1000 tickets: c0 ")


@pytest.mark.parametrize(("options", "words"), [((), "refused: shares/plan"), (("--dry-run",), "would be refused")])
def test_an_operator_without_the_power(
    stage: Stage, capsys: Said, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...], words: str
) -> None:
    sign_as("mia", monkeypatch)
    for typed in (["set", TEXT], ["off"]):
        code, lines, err = stage.type(capsys, *typed, *options)
        assert (code, lines, stage.plan) == (exit_codes.PERMISSION, [], None)
        assert words in err
        assert "othing was changed" in err


def test_of_two_operators_at_once_one_is_told(stage: Stage, capsys: Said, monkeypatch: pytest.MonkeyPatch) -> None:
    publish_after(lambda: stage.hold(2, ("web", 50_000), ("rest", 50_000), principal="bob"), monkeypatch, publishing)
    code, lines, err = stage.type(capsys, "set", TEXT)
    assert (code, lines) == (exit_codes.NOT_REACHED, [])
    assert "version 2 of bob counts, which was published at the same time: publish again" in err


@pytest.mark.parametrize("typed", [("set", TEXT), ("off",)])
def test_the_other_may_come_before_the_signature(
    stage: Stage, capsys: Said, monkeypatch: pytest.MonkeyPatch, typed: tuple[str, ...]
) -> None:
    """The daemon refuses the order then, because it holds a newer one."""

    stage.hold(3, *SHARES)
    publish_before(lambda: stage.hold(4, ("web", 50_000), ("rest", 50_000), principal="bob"), monkeypatch)
    code, lines, err = stage.type(capsys, *typed)
    assert (code, lines) == (exit_codes.NOT_REACHED, [])
    assert "version 4 of bob counts, which was published at the same time: publish again" in err


# -- status ---------------------------------------------------------------------------------------------------------


def test_before_shares_were_ever_set(stage: Stage, capsys: Said) -> None:
    code, lines, _ = stage.type(capsys, "status")
    assert (code, lines[:-1]) == (
        exit_codes.OK,
        ["no shares are set", "state  nodes", "none      11  10.0.0.[1-11]"],
    )
    assert lines[-1].startswith("11 of 11 answered in ")


def test_all_nodes_follow(stage: Stage, capsys: Said) -> None:
    stage.serve()
    code, lines, _ = stage.type(capsys, "status")
    assert code == exit_codes.OK
    assert lines[:-1] == [
        "version 2 published by ann at 2026-11-26 08:33:20 UTC: a round lasts 1 s",
        "class  wanted   got  used  needy",
        "web        60  60.0  70.0  yes",
        "batch      30  30.0  25.0  no",
        "rest       10  10.0   4.0  no",
        "branch              nodes    age  class   row   got  used  needy",
        "10.0.0.1 alone          1  0.2 s  web    70.6  60.0  70.0  yes",
        "                                  batch  27.1  30.0  25.0  no",
        "                                  rest    2.4  10.0   4.0  no",
        "10.0.0.2 and below      7  0.2 s  web    70.6  60.0  70.0  yes",
        "                                  batch  27.1  30.0  25.0  no",
        "                                  rest    2.4  10.0   4.0  no",
        "10.0.0.3 and below      3  0.2 s  web    70.6  60.0  70.0  yes",
        "                                  batch  27.1  30.0  25.0  no",
        "                                  rest    2.4  10.0   4.0  no",
        "10.0.0.1 (root) has decided 0.1 s ago for 11 of 11 nodes",
        "state  nodes",
        "obeys     11  10.0.0.[1-11]",
    ]
    assert lines[-1].startswith("11 of 11 answered in ")
    code, lines, _ = stage.type(capsys, "status", "--json")
    found = fitting("shares-status", lines[0])
    assert (code, found["tree"]["root"], found["unread"]) == (exit_codes.OK, "10.0.0.1", 0)


def test_nodes_that_do_not_follow_are_named_first(stage: Stage, capsys: Said) -> None:
    stage.divide(stage.serve(), [LeftOut(3, 3, "nonsense", "reports 0 nodes")])
    stage.say("failed", 9, detail="cannot write cpu.weight of /apps/web-1: no such file\x1b")
    stage.say("no agent", 7, 8)
    stage.say("obeys", 4, notes=("class web has no group",))
    code, lines, _ = stage.type(capsys, "status")
    assert code == exit_codes.NOT_REACHED
    assert lines[-15:-1] == [
        "                                  rest    2.4  10.0   4.0  no",
        "left out: 10.0.0.3 and below, 3 nodes: it has reported what makes no sense: it reports 0 nodes",
        "10.0.0.1 (root) has decided 0.1 s ago for 8 of 11 nodes",
        "3 nodes have no part in the decisions; `subord shares why NODE` says why",
        "state     nodes",
        "failed        1  10.0.0.9",
        "  the agent cannot measure or set weights, which stay as they are: cannot write cpu.weight of",
        "  /apps/web-1: no such file?",
        "no agent      2  10.0.0.[7-8]",
        "  there is no agent on the node, or it cannot be reached: start subord-agent.socket",
        "obeys         1  10.0.0.4",
        "  class web has no group",
        "obeys         7  10.0.0.[1-3,5-6,10-11]",
        "3 nodes do not follow the document: failed, no agent",
    ]


def test_no_agent_anywhere(stage: Stage, capsys: Said) -> None:
    stage.serve()
    stage.say("no agent")
    code, lines, _ = stage.type(capsys, "status", "10.0.0.4")
    assert code == exit_codes.NOT_REACHED
    assert lines[5:-1] == [
        "state     nodes",
        "no agent      1  10.0.0.4",
        "  there is no agent on the node, or it cannot be reached: start subord-agent.socket",
        "1 node does not follow the document: no agent",
    ]


def test_a_branch_without_part_is_no_success(stage: Stage, capsys: Said) -> None:
    """Though all nodes say that they obey."""
    stage.divide(stage.serve(), [LeftOut(7, 1, "no report")])
    code, lines, _ = stage.type(capsys, "status")
    assert code == exit_codes.NOT_REACHED
    assert "1 node has no part in the decisions; `subord shares why NODE` says why" in lines


def test_a_root_alone_that_cannot_measure(stage: Stage, capsys: Said) -> None:
    """It is the only node."""
    plan = stage.serve()
    stage.world.leaders = {7: None}
    shares = stage.node.shares
    lost = LeftOut(7, 1, "no report")
    changed = {"asked": 1, "told": 0, "branches": (), "left_out": (lost,), "wanted_from": "document"}
    shares.found = shares.found._replace(plan=plan, wanted=plan.wanted, **changed)
    stage.say("no agent", 7)
    code, lines, _ = stage.type(capsys, "status")
    assert code == exit_codes.NOT_REACHED
    assert lines[1:6] == [
        "class  wanted  got  used  needy",
        "web        60    -     -  -",
        "batch      30    -     -  -",
        "rest       10    -     -  -",
        "left out: 10.0.0.7 alone, 1 node: it has not reported yet, or its node cannot measure",
    ]
    assert lines[6] == "1 node has no part in the decisions; `subord shares why NODE` says why"
    code, lines, _ = stage.type(capsys, "why", "10.0.0.7")
    assert lines[-4:-1] == [
        "10.0.0.7, for itself: nothing is decided",
        "  it divides by the document, as the root, version 2",
        "  this branch has no part in its decisions: it has not reported yet, or its node cannot measure",
    ]


def test_nodes_with_another_version(stage: Stage, capsys: Said) -> None:
    plan = stage.serve()
    stage.hold(3, *SHARES)
    stage.divide(plan._replace(version=3, mark=stage.plan.mark if stage.plan else 0))
    for position, found in ((4, plan), (5, None)):
        shares = stage.world.known[position].shares
        shares.found = shares.found._replace(plan=found)
    stage.say("none", 5)
    code, lines, _ = stage.type(capsys, "status", "10.0.0.[4-6]")
    assert code == exit_codes.NOT_REACHED
    assert lines[5:-1] == [
        "state  nodes",
        "none       1  10.0.0.5",
        "  no shares are set",
        "  no version of the document is there, not version 3",
        "obeys      1  10.0.0.4",
        "  the groups of the classes have their weights",
        "  version 2 of the document is there, not version 3",
        "obeys      1  10.0.0.6",
        "2 nodes do not follow the document: none, obeys",
    ]


def test_shares_that_are_off(stage: Stage, capsys: Said) -> None:
    stage.off(stage.hold(2))
    stage.say("off")
    code, lines, _ = stage.type(capsys, "status")
    assert (code, lines[1:-1]) == (exit_codes.OK, ["state  nodes", "off       11  10.0.0.[1-11]"])
    assert lines[0] == "version 2 published by ann at 2026-11-26 08:33:20 UTC: shares are off"


def test_what_cannot_be_read_is_no_success(stage: Stage, capsys: Said) -> None:
    stage.serve()
    stage.world.lying = {1: b"\xff", 5: b"nonsense"}
    code, lines, _ = stage.type(capsys, "status")
    assert code == exit_codes.NOT_REACHED
    assert "what each class has got is not known: the root has not told it" in lines
    assert lines[-2] == "the answers of 2 nodes cannot be read: they are of another release"
    stage.world.lying = dict.fromkeys(range(1, 12), b"")
    code, lines, _ = stage.type(capsys, "status")
    assert code == exit_codes.NOT_REACHED
    assert lines[-2] == "the answers of 11 nodes cannot be read: they are of another release"


def test_missing_nodes_and_a_conflict(stage: Stage, capsys: Said) -> None:
    stage.serve()
    stage.hold(2, ("web", 50_000), ("rest", 50_000))
    stage.world.gone = {9}
    code, lines, _ = stage.type(capsys, "status")
    assert code == exit_codes.NOT_REACHED
    assert "another document was published with the same version, and does not count: publish again" in lines
    assert lines[-1].endswith("; missing: 10.0.0.9 down")


def test_more_branches_than_have_room(stage: Stage, capsys: Said) -> None:
    stage.serve()
    root = stage.world.known[1].shares
    root.found = root.found._replace(
        left_out=tuple(LeftOut(each, 2, "stale", "x" * 400) for each in range(100, 300)),
        undecided="there is nothing to divide",
    )
    _, lines, _ = stage.type(capsys, "status")
    (more,) = (each for each in lines if each.endswith(" more branches, which had no room in the answer"))
    shown = sum(each.startswith("left out: 10.") for each in lines)
    assert shown + int(more.split()[2]) == 200
    assert "10.0.0.1 (root) has found no shares in the last round: there is nothing to divide" in lines


# -- why ------------------------------------------------------------------------------------------------------------


def test_the_reasons_of_a_leaf(stage: Stage, capsys: Said) -> None:
    stage.serve()
    code, lines, _ = stage.type(capsys, "why", "10.0.0.7")
    assert code == exit_codes.OK
    assert lines[:-1] == [
        "10.0.0.7: obeys, version 2 of the document",
        "  the groups of the classes have their weights",
        "  its row, of 100 tickets: web 74, batch 24, rest 2",
        "  it divides by the row of its leader; the last row came 0.5 s ago",
        "10.0.0.3, for 10.0.0.7: decided 0.1 s ago, for 3 branches with 3 of 3 nodes",
        "  it divides by the row of its leader, version 2",
        "  class  wanted   got  used  needy  deposit  want  correction  reward  share",
        "  web      70.6  60.0  70.0  yes        0.0  72.0        -1.4     0.0   73.8",
        "  batch    27.1  30.0  25.0  no         5.0  23.0         0.0     0.0   24.1",
        "  rest      2.4  10.0   4.0  no         6.0   2.0         0.0     0.0    2.1",
        "  withdrawal, of all branches together: batch -12.2, rest -1.1",
        "10.0.0.1, for 10.0.0.3 and below: decided 0.1 s ago, for 3 branches with 11 of 11 nodes",
        "  it divides by the document, as the root, version 2",
        "  class  wanted   got  used  needy  deposit  want  correction  reward  share",
        "  web      60.0  60.0  70.0  yes        0.0  72.0       -12.0     0.0   70.6",
        "  batch    30.0  30.0  25.0  no         4.1  23.0         0.0     0.0   27.1",
        "  rest     10.0  10.0   4.0  no         4.9   2.0         0.0     0.0    2.4",
        "  withdrawal, of all branches together: batch -21.0, rest -24.0",
        "in tickets, hundredths of a node:",
        "  wanted      over all nodes of the leader's branch, now; the decision may be older",
        "  got, used   by the last report of this branch, the mean of its nodes",
        "  needy       work was left over at the end of the round",
        "  deposit     unused tickets of a class without waiting work, put into the bank",
        "  want        what the class has used, and at most 2 more if work was left over, else as much less",
        "  correction  subtracted from the over-allocated, or added to the needy and under-allocated",
        "  withdrawal  withdrawn from the bank by a class that is still over; below 0: deposited by one under",
        "  reward      given to the needy branches out of the bank",
        "  share       the row: all classes together normalized to 100",
    ]
    assert lines[-1].startswith("3 of 3 answered in ")
    code, lines, _ = stage.type(capsys, "why", "10.0.0.7", "--json")
    found = fitting("shares-why", lines[0])
    assert (code, found["node"]["address"], len(found["leaders"])) == (exit_codes.OK, "10.0.0.7", 2)


def test_the_reasons_of_a_node_with_branches(stage: Stage, capsys: Said) -> None:
    stage.serve()
    _, lines, _ = stage.type(capsys, "why", "10.0.0.3")
    assert "10.0.0.3, for itself: decided 0.1 s ago, for 3 branches with 3 of 3 nodes" in lines


def test_the_reasons_of_a_branch_without_part(stage: Stage, capsys: Said) -> None:
    stage.divide(stage.serve(), [LeftOut(3, 3, "stale")])
    stage.say("no agent", 3)
    root = stage.world.known[1].shares
    root.found = root.found._replace(undecided="the solver has found no solution")
    code, lines, _ = stage.type(capsys, "why", "10.0.0.3")
    assert code == exit_codes.OK
    assert lines[0] == "10.0.0.3: no agent, version 2 of the document"
    place = lines.index("10.0.0.1, for 10.0.0.3 and below: decided 0.1 s ago, for 2 branches with 8 of 11 nodes")
    assert lines[place + 1 : place + 5] == [
        "  it divides by the document, as the root, version 2",
        "  no shares in the last round, so those before stay: the solver has found no solution",
        "  this branch has no part in its decisions: it has not renewed its report",
        "in tickets, hundredths of a node:",
    ]


def test_leaders_without_an_answer(stage: Stage, capsys: Said) -> None:
    stage.serve()
    stage.world.lying[3] = b"\xff"
    code, lines, _ = stage.type(capsys, "why", "10.0.0.7")
    assert code == exit_codes.NOT_REACHED
    assert lines[4:6] == [
        "10.0.0.3, for 10.0.0.7 and below: no answer: unreadable answer",
        "  the answer of the node cannot be read: it is of another release",
    ]
    assert lines[-1].endswith("; missing: 10.0.0.3 unreadable answer")


@pytest.mark.parametrize(
    ("node", "code", "words"),
    [
        ("10.0.0.99", exit_codes.NOT_REACHED, "0 of 1 answered in "),
        ("11.0.0.1", exit_codes.NO_SUCH_NODE, "'11.0.0.1' is no address of the network: no node was asked"),
        ("nowhere", exit_codes.NO_SUCH_NODE, "nowhere"),
    ],
)
def test_the_reasons_of_no_node(stage: Stage, capsys: Said, node: str, code: int, words: str) -> None:
    found, lines, err = stage.type(capsys, "why", node)
    assert found == code
    assert words in "".join(lines) + err


def test_the_reasons_without_shares(stage: Stage, capsys: Said) -> None:
    code, lines, _ = stage.type(capsys, "why", "10.0.0.7")
    assert (code, lines[:-1]) == (
        exit_codes.OK,
        ["10.0.0.7: none, no version of the document", "  no shares are set"],
    )
    stage.off(stage.hold(2))
    stage.say("off")
    _, lines, _ = stage.type(capsys, "why", "10.0.0.7")
    assert lines[:-1] == [
        "10.0.0.7: off, version 2 of the document",
        "  shares are off; the groups have the weights from before",
    ]


# -- other daemons --------------------------------------------------------------------------------------------------

OLDER = json.dumps({"error": "there is nothing here; see /v1/status"}).encode()


@pytest.mark.parametrize("words", [("set", TEXT), ("status",), ("why", "10.0.0.7"), ("off",)])
@pytest.mark.parametrize(
    ("body", "status", "code"),
    [(OLDER, 404, exit_codes.DAEMON_UNREACHABLE), (b"\xff{", 200, exit_codes.DAEMON_UNREACHABLE)],
)
def test_a_daemon_of_another_release(
    capsys: Said, words: tuple[str, ...], body: bytes, status: int, code: int
) -> None:
    stage = Stage()
    paths = ("/v1/shares", "/v1/shares/plan", "/v1/shares/why")
    with fake_daemon(stage.node, {each: fixed_answer(body, status) for each in paths}) as stage.path:
        found, lines, err = stage.type(capsys, *words)
    assert (found, lines, stage.plan) == (code, [], None)
    assert len(err.splitlines()) == 1
