"""What nodes tell of shares, and the documents that the asking node makes of it."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import msgspec
import pytest
from loops import over

from subord.api.query.orders import Answered, asked
from subord.core.carriage.engine.bounds import RESULT_BYTES_MAX
from subord.core.carriage.engine.ranges import Ranges
from subord.core.carriage.shares.interface import Branch, LeftOut, OfBranch
from subord.runtime.shares.state import State
from subord.services.shares.telling import words
from subord.services.shares.telling.answering import answer, told, told_why
from subord.services.shares.telling.documents import SharesDocument, WhyDocument
from subord.services.shares.telling.reading import document
from subord.services.shares.telling.reasons import why
from subord.services.shares.telling.words import (
    Ask,
    Following,
    Reported,
    Told,
    Tree,
    decode_ask,
    decode_told,
    decode_why,
    encode,
)
from tests.api.shared_nodes import SHARES, SharedNodes
from tests.cli.test_cli_errors import ENVIRONMENT

PLACE = {each: f"10.0.0.{each}" for each in range(1, 12)}


@pytest.fixture
def stage() -> SharedNodes:
    return SharedNodes()


async def found(stage: SharedNodes, *positions: int) -> SharesDocument:
    targets = Ranges.of(positions) if positions else None
    answered: Answered = await asked(stage.node, "shares", 1.0, targets=targets)  # type: ignore[arg-type]
    made = document(answered)
    assert isinstance(made, SharesDocument)
    return made


async def reasons(stage: SharedNodes, position: int) -> WhyDocument:
    return await why(stage.node, position, 1.0)  # type: ignore[arg-type]


def states(made: SharesDocument) -> list[tuple[str, bool, tuple[str, ...]]]:
    return [(each.state, each.follows, each.addresses) for each in made.states]


# -- answers --------------------------------------------------------------------------------------------------------


async def test_nodes_that_follow_alike_say_the_same(stage: SharedNodes) -> None:
    stage.divide(stage.hold(1, *SHARES))
    stage.say("obeys")
    stage.know("web", "rest")
    four, five, two, one = [await answer(each, b"") for each in stage.nodes((4, 8, 2, 1))]  # type: ignore[arg-type]
    assert four == five == two, "ages and rows are not in it"
    assert one != two
    said = decode_told(one)
    assert said is not None
    assert said.tree is not None
    assert [each.position for each in said.tree.branches] == [1, 2, 3]


async def test_a_root_without_shares_tells_no_tree(stage: SharedNodes) -> None:
    assert told(stage.world.known[1]).tree is None  # type: ignore[arg-type]
    stage.off(stage.hold(2))
    said = told(stage.world.known[1])  # type: ignore[arg-type]
    assert said.tree is None
    assert said.following.version == 2


@over("payload", [b"\xff", b"x", encode(Ask((0,))), encode(((1,) * (words.PATH_MAX + 1),)), b"\x91" * 100_000])
async def test_a_question_that_cannot_be_read_is_answered_with_nothing(payload: bytes) -> None:
    node = SharedNodes().world.known[1]
    assert decode_ask(payload) is None
    assert await answer(node, payload) == b""  # type: ignore[arg-type]


async def test_an_answer_with_very_much_has_room(stage: SharedNodes) -> None:
    """126 classes, 1,000 branches, of which 500 are left out with a long fault, and long texts of the node."""
    names = [f"c{each}".ljust(32, "x") for each in range(126)]
    shares = [(each, 100_000 // 126) for each in names[1:]]
    shares.insert(0, (names[0], 100_000 - sum(each for _, each in shares)))
    plan = stage.hold(1, *shares)
    stage.divide(plan)
    root = stage.world.known[1]
    report = Branch(plan.wanted, plan.wanted, [True] * 126, 3)
    many = tuple(OfBranch(each, report, 3, 1, 0.5, plan.wanted) for each in range(1, 501))
    lost = tuple(LeftOut(each, 9, "nonsense", "x" * 900) for each in range(501, 1001))
    root.shares.found = root.shares.found._replace(branches=many, left_out=lost, undecided="y" * 900)
    root.shares.state = State("failed", "ä" * 900, ("ö" * 900,) * 20)
    root.shares.classes = tuple(f"k{each}".ljust(32, "y") for each in range(900))
    for payload in (b"", encode(Ask()), encode(Ask((1, 700)))):
        assert len(await answer(root, payload)) <= RESULT_BYTES_MAX  # type: ignore[arg-type]
    said = decode_told(await answer(root, b""))  # type: ignore[arg-type]
    assert said is not None
    assert said.tree is not None
    assert len(said.tree.branches) + said.tree.more_branches == 500
    assert len(said.tree.left_out) + said.tree.more_left_out == 500
    assert said.tree.left_out
    assert said.tree.branches, "what is left out takes at most half of the room"
    assert len(said.classes) == words.CONFIGURED_MAX
    assert decode_why(await answer(root, encode(Ask((1, 700))))) is not None  # type: ignore[arg-type]


async def test_many_branches_of_few_classes_have_room(stage: SharedNodes) -> None:
    plan = stage.hold(1, *SHARES)
    stage.divide(plan)
    root = stage.world.known[1]
    report = Branch(plan.wanted, plan.wanted, [True] * 3, 3)
    many = tuple(OfBranch(each, report, 3, 1, 0.5, plan.wanted) for each in range(1, 1025))
    root.shares.found = root.shares.found._replace(branches=many)
    said = decode_told(await answer(root, b""))  # type: ignore[arg-type]
    assert said is not None
    assert said.tree is not None
    assert len(said.tree.branches) > 500
    assert said.tree.more_branches == 1024 - len(said.tree.branches)


# -- the document ---------------------------------------------------------------------------------------------------


async def test_shares_that_were_never_set(stage: SharedNodes) -> None:
    made = await found(stage)
    assert (made.plan.version, made.plan.principal, made.plan.off, made.plan.classes) == (0, None, False, ())
    assert states(made) == [("none", True, tuple(PLACE.values()))]
    assert (made.tree, made.known, made.unread) == (None, (), 0)
    assert made.complete


async def test_shares_that_are_off(stage: SharedNodes) -> None:
    stage.off(stage.hold(2))
    stage.say("off")
    stage.say("obeys", 4)
    made = await found(stage)
    assert (made.plan.version, made.plan.principal, made.plan.off, made.plan.round_s) == (2, "ann", True, 1.0)
    assert [(state, follows, len(nodes)) for state, follows, nodes in states(made)] == [
        ("obeys", False, 1),
        ("off", True, 10),
    ]


async def test_what_the_root_knows(stage: SharedNodes) -> None:
    plan = stage.hold(3, *SHARES)
    stage.divide(plan, [LeftOut(3, 3, "stale")])
    stage.say("obeys")
    tree = (await found(stage)).tree
    assert tree is not None
    assert (tree.root, tree.asked, tree.told, tree.decided_s, tree.undecided) == (PLACE[1], 11, 8, 0.125, "")
    assert [(each.address, each.alone, each.nodes) for each in tree.branches] == [
        (PLACE[1], True, 1),
        (PLACE[2], False, 7),
    ]
    first = tree.classes[0]
    assert (first.name, first.wanted, first.allocation, first.usage, first.needy) == ("web", 60.0, 60.0, 70.0, True)
    assert [round(each.wanted or 0, 1) for each in tree.branches[1].classes] == [70.6, 27.1, 2.4]
    (lost,) = tree.left_out
    assert (lost.address, lost.nodes, lost.cause, lost.text) == (PLACE[3], 3, "stale", "has not renewed its report")


async def test_nodes_that_need_an_operator_come_first(stage: SharedNodes) -> None:
    plan = stage.hold(3, *SHARES)
    stage.divide(plan)
    stage.say("obeys")
    stage.say("obeys", 2, notes=("class web has no group",))
    stage.say("no agent", 4, 5)
    stage.say("failed", 9, detail="cannot write")
    stage.say("of tomorrow", 11)
    assert states(await found(stage)) == [
        ("of tomorrow", False, (PLACE[11],)),
        ("failed", False, (PLACE[9],)),
        ("no agent", False, (PLACE[4], PLACE[5])),
        ("obeys", True, (PLACE[2],)),
        ("obeys", True, (PLACE[1], PLACE[3], PLACE[6], PLACE[7], PLACE[8], PLACE[10])),
    ]


async def test_another_version_or_another_content_is_not_followed(stage: SharedNodes) -> None:
    """Two documents of one version differ by their mark."""
    plan = stage.hold(3, *SHARES)
    stage.divide(plan)
    stage.say("obeys")
    for position, other in ((4, plan._replace(version=2)), (5, plan._replace(mark=plan.mark ^ 1))):
        shares = stage.world.known[position].shares
        shares.found = shares.found._replace(plan=other)
    made = await found(stage)
    assert [(each.version, each.follows, each.nodes) for each in made.states] == [
        (2, False, 1),
        (3, False, 1),
        (3, True, 9),
    ]


async def test_a_conflict_and_a_document_of_a_later_release(stage: SharedNodes) -> None:
    from subord.core.carriage.documents import NEVER_MS, Document
    from subord.core.carriage.documents import SHARES as NAME
    from subord.core.carriage.orders import Verdict

    stage.hold(3, *SHARES)
    stage.hold(3, ("web", 50_000), ("rest", 50_000))
    assert (await found(stage)).plan.conflict
    later = Document(NAME, 4, 2_000_000_000_000, NEVER_MS, b"\x93\x01\x02\x03")
    stage.node.tracker.take([(later, Verdict("", "ann", "SHA256:x"))])
    plan = (await found(stage)).plan
    assert (plan.version, plan.off, plan.round_s, plan.classes, plan.conflict) == (4, False, None, (), False)


async def test_the_classes_that_nodes_know(stage: SharedNodes) -> None:
    stage.hold(1, ("web", 50_000), ("rest", 50_000))
    stage.know("web", "batch", positions=(1, 2, 3))
    stage.know("web", "other", positions=(4,))
    known = {each.name: each for each in (await found(stage)).known}
    assert list(known) == ["web", "rest", "batch", "other"]
    assert [(each.nodes, each.lacking) for each in known.values()] == [(4, 7), (0, 11), (3, 8), (1, 10)]
    assert known["web"].addresses == tuple(PLACE[each] for each in range(5, 12))


TREE = Tree(("a", "b"), (50_000, 50_000), 2, 2, Reported(2, (1, 2), (3, 4), (True, False)), 5, "", (), ())


def forged(said: msgspec.Struct, **changed: Any) -> list[Any]:
    """With other fields, which are not checked."""
    return [changed.get(each, getattr(said, each)) for each in said.__struct_fields__]


SAID = Told(Following(1, 7, "obeys"), ("a",), TREE)


@over(
    "lie",
    [
        b"",
        b"\xff" * 20,
        b"\x91" * 100_000,
        msgspec.msgpack.encode({"following": 1}),
        encode(forged(SAID, classes=("x" * 33,))),
        encode(forged(SAID, following=Following(-1, 7, "obeys"))),
        encode(forged(SAID, following=Following(1, 7, "obeys", "x" * 301))),
        encode(forged(SAID, tree=forged(TREE, wanted=(1,)))),
        encode(forged(SAID, tree=forged(TREE, whole=Reported(2, (1, 2), (3,), (True, False))))),
    ],
)
async def test_what_cannot_be_read_is_counted(lie: bytes) -> None:
    stage = SharedNodes()
    stage.world.lying[1] = lie
    made = await found(stage)
    assert (made.told, made.unread, made.tree) == (11, 1, None)
    assert sum(each.nodes for each in made.states) == 10


async def test_only_the_root_tells_what_branches_report(stage: SharedNodes) -> None:
    stage.world.lying[5] = encode(SAID)
    assert (await found(stage)).tree is None
    stage.world.lying = {1: encode(SAID)}
    tree = (await found(stage)).tree
    assert tree is not None
    assert [each.name for each in tree.classes] == ["a", "b"]


async def test_branches_outside_the_network_are_not_shown(stage: SharedNodes) -> None:
    lost = words.ToldLeftOut(1 << 40, 1, "stale")
    stage.world.lying[1] = encode(
        msgspec.structs.replace(SAID, tree=msgspec.structs.replace(TREE, left_out=(lost,), more_left_out=2))
    )
    tree = (await found(stage)).tree
    assert tree is not None
    assert (tree.left_out, tree.more_left_out) == ((), 2)


# -- why ------------------------------------------------------------------------------------------------------------


async def test_why_a_leaf_has_its_row(stage: SharedNodes) -> None:
    stage.divide(stage.hold(3, *SHARES))
    stage.say("obeys")
    made = await reasons(stage, 7)
    assert made.node is not None
    assert (made.node.address, made.node.state, made.node.wanted_from) == (PLACE[7], "obeys", "leader")
    assert [(each.name, each.tickets) for each in made.node.obeyed] == [("web", 74), ("batch", 24), ("rest", 2)]
    assert [(each.address, each.about) for each in made.leaders] == [(PLACE[3], PLACE[7]), (PLACE[1], PLACE[3])]
    three, one = made.leaders
    assert (three.wanted_from, one.wanted_from, three.nodes, one.nodes) == ("leader", "document", 1, 3)
    web = three.classes[0]
    assert list(web.steps) == ["deposit", "want", "correction", "reward", "share"]
    assert web.steps["want"] == 72.0, "70 used, and work was left over"
    assert web.steps["share"] == web.row == made.node.obeyed[0].percent
    assert web.wanted == one.classes[0].row, "each leader divides the row that it has got"
    assert "withdrawal" in web.totals
    assert (made.asked, made.told, made.complete) == (3, 3, True)


async def test_a_leader_decides_for_itself(stage: SharedNodes) -> None:
    stage.divide(stage.hold(3, *SHARES))
    made = await reasons(stage, 3)
    assert [(each.address, each.about) for each in made.leaders] == [(PLACE[3], PLACE[3]), (PLACE[1], PLACE[3])]
    made = await reasons(stage, 1)
    assert [(each.address, each.about) for each in made.leaders] == [(PLACE[1], PLACE[1])]


async def test_why_while_shares_are_off_or_were_never_set(stage: SharedNodes) -> None:
    made = await reasons(stage, 7)
    assert (made.node is not None, made.leaders, made.complete) == (True, (), True)
    assert made.asked == 1, "no leader has anything to explain"
    stage.off(stage.hold(3))
    made = await reasons(stage, 7)
    assert made.node is not None
    assert (made.node.version, made.leaders, made.node.obeyed) == (3, (), ())


async def test_a_branch_that_is_left_out(stage: SharedNodes) -> None:
    stage.divide(stage.hold(3, *SHARES), [LeftOut(7, 1, "no report")])
    leader = (await reasons(stage, 7)).leaders[0]
    assert leader.left_out == "has not reported yet, or its node cannot measure"
    assert (leader.nodes, {each.row for each in leader.classes}) == (1, {None})
    assert leader.classes[0].steps == {}


async def test_a_leader_that_does_not_list_the_node(stage: SharedNodes) -> None:
    stage.divide(stage.hold(3, *SHARES))
    shares = stage.world.known[3].shares
    shares.found = shares.found._replace(branches=shares.found.branches[:1], order=(3,))
    leader = (await reasons(stage, 7)).leaders[0]
    assert leader.left_out == "is not in the roster of this leader just now"
    assert leader.nodes is None


async def test_leaders_that_do_not_answer_are_named(stage: SharedNodes) -> None:
    stage.divide(stage.hold(3, *SHARES))
    stage.world.lying[3] = b"\xff"
    made = await reasons(stage, 7)
    assert [(each.address, each.cause) for each in made.leaders] == [
        (PLACE[3], "unreadable answer"),
        (PLACE[1], None),
    ]
    assert (made.asked, made.told, made.complete) == (3, 2, False)
    stage.world.lying, stage.world.cut_off = {}, {3}
    made = await reasons(stage, 7)
    assert [each.cause for each in made.leaders] == ["moved", None]
    assert made.told + sum(each.count for each in made.missing) == made.asked == 3


@over("lie", [b"", b"\xff", encode(SAID)])
async def test_a_node_that_cannot_be_read(lie: bytes) -> None:
    stage = SharedNodes()
    stage.world.lying[7] = lie
    made = await reasons(stage, 7)
    assert (made.node, made.leaders, made.told, made.complete) == (None, (), 0, False)
    assert [each.cause for each in made.missing] == ["unreadable answer"]


async def test_a_false_path_and_a_false_row(stage: SharedNodes) -> None:
    """Leaders outside the network are not asked; a row of nothing has no tickets."""
    stage.divide(stage.hold(3, *SHARES))
    said = told_why(stage.world.known[7], Ask())  # type: ignore[arg-type]
    false = msgspec.structs.replace(said, path=(1, 1, 1 << 40, 7, 3), obeyed=(0, 0, 0))
    stage.world.lying[7] = encode(false)
    made = await reasons(stage, 7)
    assert made.node is not None
    assert made.node.obeyed == ()
    assert [each.address for each in made.leaders] == [PLACE[3], PLACE[1]]


@over(
    "changed",
    [
        {"obeyed": (1, 2)},
        {"wanted": (1,)},
        {"wanted": ("x", 2, 3)},
        {"about": 0},
        {"decision": [1, 3, [], [["want", [1], [1, 2, 3]]]]},
    ],
)
async def test_reasons_with_rows_of_other_lengths_are_not_read(changed: dict[str, Any]) -> None:
    stage = SharedNodes()
    stage.divide(stage.hold(3, *SHARES))
    said = told_why(stage.world.known[7], Ask())  # type: ignore[arg-type]
    assert decode_why(encode(said)) == said
    assert decode_why(encode(forged(said, **changed))) is None


@pytest.mark.slow
def test_a_daemon_does_not_import_what_only_experiments_need() -> None:
    code = "import subord.services.driving, subord.services.shares.core, sys; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], env=ENVIRONMENT, capture_output=True, text=True, check=True)
    shares = {each for each in done.stdout.split() if each.startswith("subord.services.shares.")}
    assert "subord.services.shares.bank" in shares
    others = {"reserves", "simulation", "actuators", "agent"}
    assert not [each for each in shares if others & set(each.split("."))]
