"""The problems of all nodes: joined where they are equal, bounded, and in time whatever node hangs."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import msgspec
import pytest
import trio
from trio.testing import MockClock

from subord import __version__
from subord.api.handlers import problems
from subord.api.models import nodes
from subord.api.models.fields import ErrorsDocument, ProblemDocument, ProblemsDocument
from subord.api.node_api import AskFailure, Question
from subord.core.carriage.documents import Document
from subord.core.events import LostCause
from subord.core.identity.identity import NO_IDENTITY, WORDS
from subord.core.members import statements
from subord.core.members.membership import DOCUMENTS, REGISTER
from subord.core.members.register import Record, Run, State
from subord.core.members.statements import Maintain
from subord.core.view import Liveness, Refusal
from subord.runtime.net.peer_query import understood
from subord.runtime.problems import LATELY_S, LINES_MAX, RecentProblems, of_loss
from subord.sealing.host_certificates import Word
from subord.sealing.keys import key_of, keyring_of
from tests.api.fake_node_api import FakeNode, World, key_ring_of

BUDGET_S = 0.8


def refusal(number: int, reason: str = "fan-out 8, we use 4", ago_s: float = 2.0) -> Refusal:
    return Refusal(address=f"10.0.0.{number}", by="us", reason=reason, ago_s=ago_s, times=3)


async def found(world: World, position: int = 1) -> ErrorsDocument:
    return await problems.find(world.node(position), BUDGET_S)


def texts(document: ErrorsDocument) -> dict[str, tuple[str, ...]]:
    return {each.text: tuple(sorted(each.addresses)) for each in document.problems}


@pytest.mark.parametrize("position", [1, 2, 9])
async def test_a_cluster_without_problems(position: int) -> None:
    document = await found(World(), position)
    assert (document.nodes, document.problems, document.silent, document.complete) == (11, (), (), True)
    assert (document.asked, document.note) == ("10.0.0.1", None)


async def test_equal_problems_are_joined() -> None:
    world = World()
    world.refusals = (refusal(30), refusal(31), refusal(40, "another mapping"), refusal(50, ago_s=LATELY_S + 1))
    document = await found(world)
    assert texts(document) == {
        "refused: fan-out 8, we use 4": ("10.0.0.30", "10.0.0.31"),
        "refused: another mapping": ("10.0.0.40",),
    }
    assert [each.nodes for each in document.problems] == [2, 1]


async def test_missing_nodes_are_known_to_the_root() -> None:
    world = World()
    world.liveness[5] = Liveness.MISSING
    assert texts(await found(world, 3)) == {"down: ended or vanished without goodbye": ("10.0.0.5",)}


@pytest.mark.parametrize("how", ["hung", "gone", "lying"])
async def test_a_silent_node_counts_with_its_branch(how: str, autojump_clock: MockClock) -> None:
    world = World()
    if how == "lying":
        world.lying[2] = b"[]"
    else:
        getattr(world, how).add(2)
    document = await found(world)
    assert (document.nodes, document.silent, document.silent_nodes) == (4, ("10.0.0.2",), 7)
    assert trio.current_time() <= BUDGET_S


async def test_a_root_that_hangs_costs_no_more_than_the_budget(autojump_clock: MockClock) -> None:
    world = World()
    world.hung = {1}
    document = await found(world, 9)
    assert trio.current_time() <= BUDGET_S
    assert (document.asked, document.nodes, document.complete) == ("10.0.0.2", 7, False)
    assert document.note == "10.0.0.1 (root) does not answer: this is what 10.0.0.2 knows"
    assert (document.silent, document.silent_nodes) == (("10.0.0.1",), 1)


async def test_when_all_above_hang_the_subtree_answers(autojump_clock: MockClock) -> None:
    world = World()
    world.hung = {1, 2, 4}
    document = await found(world, 9)
    assert trio.current_time() <= BUDGET_S
    assert (document.asked, document.nodes, document.complete) == ("10.0.0.9", 1, False)


class WithOlderPeer(FakeNode):
    """Asks a world in which 2 runs a version that does not know the question and answers `reply`."""

    reply: bytes | None = None

    async def ask(self, address: str, question: Question, timeout_s: float) -> bytes | AskFailure:
        if address == "10.0.0.2":
            await trio.lowlevel.checkpoint()
            return understood(question, self.reply) if question.topic == "problems" else b"{}"
        return await super().ask(address, question, timeout_s)


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        (None, "broke off its answer: subord 0.1 does not know problems"),
        (b'{"unknown_topic":"problems","version":"0.2.0"}', "runs subord 0.2.0, which does not know problems"),
    ],
)
async def test_an_older_daemon_is_not_called_silent(
    reply: bytes | None, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(WithOlderPeer, "reply", reply)
    document = await problems.find(WithOlderPeer(World(), 1), BUDGET_S)
    assert (document.older, document.older_nodes, document.silent) == (("10.0.0.2",), 7, ())
    below = await problems.find(WithOlderPeer(World({2: None, 4: 2}), 4), BUDGET_S)
    assert below.note == f"10.0.0.2 (root) {reason}: this is what 10.0.0.4 knows"
    assert (below.silent, below.silent_nodes) == ((), 0)


async def test_differing_keys_and_versions_are_a_problem_of_the_minority(tmp_path: Path) -> None:
    world = World()
    old, new = (keyring_of(key_of(bytes([n]) * 32), revision=n) for n in (1, 2))
    world.key_rings = {position: key_ring_of(tmp_path, old if position == 9 else new) for position in world.leaders}
    names = [ring.primary.name for ring in (old, new)]
    assert texts(await found(world)) == {
        f"has key {names[0]} of revision 1, most has key {names[1]} of revision 2": ("10.0.0.9",)
    }


async def test_all_versions_are_told() -> None:
    world = World()
    assert [(each.version, each.nodes) for each in (await found(world)).versions] == [(__version__, 11)]
    older = report(problem(9, kind="version", text="runs version 0.1.0"))
    world.lying[9] = msgspec.json.encode(older)
    document = await found(world, 7)
    assert [(each.version, each.nodes) for each in document.versions] == [(__version__, 10), ("0.1.0", 1)]
    assert document.versions[1].addresses == ("10.0.0.9",)
    assert texts(document) == {f"runs version 0.1.0, most runs version {__version__}": ("10.0.0.9",)}


async def test_recent_events_are_problems() -> None:
    node = World({1: None}).node(1)
    node.counters.problems.note("dropped", "no_key", "10.0.0.7")
    node.counters.problems.note("lost", "lost its leader 10.0.0.2: closed")
    node.placed = False
    assert texts(await problems.find(node, BUDGET_S)) == {
        "its datagrams are dropped: no_key (it uses another key)": ("10.0.0.7",),
        "lost its leader 10.0.0.2: closed": ("10.0.0.1",),
        "has no place (seeking)": ("10.0.0.1",),
    }


ENDED, SILENT = "its process ended", "it was silent"
BOTH = f"{ENDED} (2) or {SILENT} (1)"


async def test_one_death_is_one_problem() -> None:
    world = World()
    for position, leader, cause in ((4, 2, "closed"), (5, 2, "closed"), (6, 3, "silence"), (7, 8, "refused")):
        world.known[position] = FakeNode(world, position)
        note_loss(world.known[position], f"10.0.0.{leader}", cause)
    world.liveness |= {2: Liveness.MISSING, 9: Liveness.MISSING}
    document = await found(world, 1)
    missing = "down: ended or vanished without goodbye"
    assert texts(document) == {
        missing: ("10.0.0.9",),
        f"{missing}; 2 subordinates say that {ENDED}": ("10.0.0.2",),
        f"lost its leader 10.0.0.3: {SILENT}": ("10.0.0.6",),
        "lost its leader 10.0.0.8: no process listens": ("10.0.0.7",),
    }
    (folded,) = (each for each in document.problems if ENDED in each.text)
    assert (folded.nodes, folded.ago_s is not None) == (1, True)


def note_loss(node: FakeNode, leader: str, cause: LostCause) -> None:
    node.counters.problems.note("lost", of_loss(leader, cause))


def test_one_death_that_is_noticed_in_two_ways_is_one_problem() -> None:
    lost = [problem(number, text=of_loss("10.0.0.2", cause)) for number, cause in LOSSES]
    merged = problems.folded([report(each) for each in lost])
    (told,) = problems._document(merged, "10.0.0.1", None).problems
    assert (told.text, told.nodes) == (f"lost its leader 10.0.0.2: {BOTH}", 3)
    gone = problem(2, 3, kind="gone", text="gone", nodes=9)
    told, others = problems._document(problems.folded([merged, report(gone)]), "10.0.0.1", None).problems
    assert (told.text, told.addresses) == (f"gone; 3 subordinates say that {BOTH}", ("10.0.0.2",))
    assert (others.text, others.addresses, others.nodes) == ("gone", ("10.0.0.3",), 8)


LOSSES: tuple[tuple[int, LostCause], ...] = ((4, "closed"), (5, "silence"), (6, "closed"))


def problem(*numbers: int, kind: str = "lost", text: str = "x", nodes: int | None = None) -> ProblemDocument:
    addresses = tuple(f"10.0.0.{number}" for number in numbers)
    return ProblemDocument(kind=kind, text=text, nodes=len(numbers) if nodes is None else nodes, addresses=addresses)


def report(*each: ProblemDocument) -> ProblemsDocument:
    return ProblemsDocument(nodes=1, problems=each)


@pytest.mark.parametrize(("kind", "nodes"), [("lost", 92), ("refused", 62)])
def test_unnamed_nodes_are_counted(kind: str, nodes: int) -> None:
    """If several reports name the same problem of others, 60 unnamed nodes may include 30 unnamed nodes."""
    one, other = problem(1, kind=kind, nodes=61), problem(2, kind=kind, nodes=31)
    assert problems.folded([report(one), report(other)]).problems[0].nodes == nodes


def test_a_report_is_bounded() -> None:
    many = [report(problem(number % 250, text=f"problem {number}")) for number in range(100)]
    wide = [report(problem(*range(number, number + 40), text="wide")) for number in range(0, 1000, 40)]
    whole = problems.folded([*many, *wide])
    assert (len(whole.problems), whole.more, whole.nodes) == (problems.PROBLEMS_MAX, 101 - problems.PROBLEMS_MAX, 125)
    assert whole.problems[0].text == "wide"
    assert (len(whole.problems[0].addresses), whole.problems[0].nodes) == (problems.NAMED_MAX, 1000)
    again = msgspec.json.decode(msgspec.json.encode(problems.folded([whole, whole])), type=ProblemsDocument)
    assert again.more >= whole.more


def test_spoofed_datagrams_displace_no_other_problem() -> None:
    now = 0.0
    recent = RecentProblems(lambda: now)
    recent.note("lost", "lost its leader 10.0.0.2: closed")
    recent.note("performance", "its jobs cannot be counted: missing")
    recent.note("dropped", "malformed", "10.0.0.7")
    for _ in range(2):
        recent.note("dropped", "no_key", "10.0.0.8")
    real = {(each.kind, each.text, each.address) for each in recent.shown()}
    for number in range(20 * LINES_MAX):
        now += 0.001
        for reason in ("no_key", "bad_tag", "unsealed"):
            recent.note("dropped", reason, f"10.0.{number // 200}.{number % 200}")
        recent.note("stream", "tls_refused", f"10.0.{number // 200}.{number % 200}")
    assert real <= {(each.kind, each.text, each.address) for each in recent.shown()}
    assert len(recent) == 4 * LINES_MAX + 3
    ages = [each.ago_s for each in recent.shown()]
    assert ages == sorted(ages)


def test_many_problems_of_one_kind_leave_room_for_others() -> None:
    forged = [report(problem(9, kind=kind, text=f"{n}")) for kind in ("refused", "odd") for n in range(200)]
    lost = problem(1, text="lost its leader 10.0.0.2: closed")
    whole = problems.folded([*forged, report(lost), *[report(problem(3, text=f"{n}")) for n in range(9)]])
    assert len(whole.problems) == problems.PROBLEMS_MAX
    assert [each.kind for each in whole.problems].count("lost") == problems.OF_A_KIND_MIN
    assert {each.kind for each in whole.problems} == {"refused", "lost"}


def test_recent_problems_are_bounded_and_expire() -> None:
    now = 0.0
    recent = RecentProblems(lambda: now)
    for number in range(2 * LINES_MAX):
        recent.note("dropped", "no_key", f"10.0.0.{number}")
    recent.note("dropped", "no_key", f"10.0.0.{2 * LINES_MAX - 1}")
    first = next(recent.shown())
    assert (len(recent), first.address, first.times) == (LINES_MAX, f"10.0.0.{2 * LINES_MAX - 1}", 2)
    now = LATELY_S + 1
    assert list(recent.shown()) == []
    recent.note("dropped", "no_key", first.address)
    assert next(recent.shown()).times == 1


async def test_an_answer_comes_when_all_time_is_spent_above() -> None:
    """With the real clock: the time may be over when the last nodes above would be asked."""
    deep = 20
    world = World({1: None, **{position: position - 1 for position in range(2, deep + 1)}})
    world.hung.update(range(1, deep))
    document = await problems.find(world.node(deep), 0.05)
    assert (document.asked, document.nodes, document.complete) == (f"10.0.0.{deep}", 1, False)


def test_a_silent_node_is_reported_once() -> None:
    node = World().node(1)
    assert nodes.path(node) == ()
    overdue = problem(2, 3, kind="silent")
    merged = ProblemsDocument(nodes=9, problems=(overdue,), silent=("10.0.0.2",), silent_nodes=1)
    document = problems._document(merged, "10.0.0.1", None)
    assert [(each.addresses, each.nodes) for each in document.problems] == [(("10.0.0.3",), 1)]


async def test_nodes_under_maintenance_cause_no_problems() -> None:
    """Neither by themselves, nor by what others say of their death; what else is wrong is still shown."""
    world = World()
    world.liveness[5] = Liveness.MISSING
    world.refusals = (refusal(30),)
    node = world.node(1)
    world.known = {1: node}
    lost = of_loss("10.0.0.5", "closed")
    node.counters.problems.note("lost", lost)
    assert len(texts(await problems.find(node, BUDGET_S))) == 2
    up = Record(1, State.UP)
    node.tracker.membership.exchange.spread(REGISTER, [Run(1, 11, up)])
    said = Maintain(((5, 5),), "new disks", "ann")
    order = statements.maintain_order("a", said, node.tracker.wall_ms)
    node.tracker.spread(DOCUMENTS, [Document(*order)])
    found = await problems.find(node, BUDGET_S)
    assert texts(found) == {"refused: fan-out 8, we use 4": ("10.0.0.30",)}
    assert found.maintained == 1


async def test_a_foreign_identity_is_named_at_once() -> None:
    node = World().node(2)
    node.counters.problems.note("stream", "tls_refused", "10.0.0.7")
    node.counters.problems.note("stream", "tls_foreign_key", "10.0.0.8")
    found = {(each.text, each.addresses) for each in problems.of_one(node).problems if each.kind == "stream"}
    words = "its key is not that of this address: another machine, or the node lost its key"
    assert found == {(f"no TLS with it: tls_foreign_key ({words})", ("10.0.0.8",))}


async def test_a_refusal_for_its_identity_names_the_node_that_is_refused() -> None:
    world = World()
    word = WORDS[NO_IDENTITY]
    world.refusals = (refusal(30, word), *(msgspec.structs.replace(refusal(n, word), by="them") for n in (3, 4)))
    (only,) = [each for each in problems.of_one(world.node(2)).problems if each.kind == "refused"]
    assert sorted(only.addresses) == ["10.0.0.2", "10.0.0.30"]


def test_each_reason_of_the_identity_is_explained() -> None:
    words = set(get_args(Word)) - {""} | {"missing"}
    assert {f"tls_certificate_{word}" for word in words} <= problems.MEANINGS.keys()


async def test_without_the_root_the_own_register_names_the_dead(autojump_clock: MockClock) -> None:
    world = World()
    world.hung = {1}
    node = world.node(9)
    world.known = {9: node}
    node.tracker.spread(REGISTER, [Run(1, 11, Record(1, State.UP)), Run(12, 13, Record(2, State.DOWN, 1000, 3))])
    document = await problems.find(node, BUDGET_S)
    assert not document.complete
    assert texts(document) == {problems.DOWN: ("10.0.0.12", "10.0.0.13")}
    assert document.down == 2


async def test_several_nodes_lost_their_leader() -> None:
    world = World()
    lost = of_loss("10.0.0.99", "closed")
    for position in (4, 5):
        world.known[position] = world.node(position)
        world.known[position].counters.problems.note("lost", lost)
    (text,) = texts(await found(world))
    assert text == lost.replace("its leader", "their leader")


async def test_the_headline_counts_nodes_that_are_down_under_maintenance() -> None:
    world = World()
    world.liveness[5] = Liveness.MISSING
    node = world.node(1)
    world.known = {1: node}
    node.tracker.spread(REGISTER, [Run(1, 11, Record(1, State.UP))])
    order = statements.maintain_order("a", Maintain(((5, 5),), "new disks", "ann"), node.tracker.wall_ms)
    node.tracker.spread(DOCUMENTS, [Document(*order)])
    document = await problems.find(node, BUDGET_S)
    assert (document.problems, document.down, document.maintained) == ((), 1, 1)
