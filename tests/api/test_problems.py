"""The problems of all nodes: joined where they are equal, bounded, and in time whatever node hangs."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import msgspec
import pytest
import trio
from trio.testing import MockClock

from subord import __version__
from subord.api.handlers import own_problems, peer_answers, problems
from subord.api.handlers.own_problems import Said
from subord.api.models import nodes
from subord.api.models.fields import ErrorsDocument, ProblemDocument, ProblemsDocument
from subord.api.node_api import Question
from subord.api.query.orders import YOUNG_NOTE, Answered, covered
from subord.core.carriage.documents import Document
from subord.core.carriage.engine.bounds import RESULT_BYTES_MAX
from subord.core.carriage.engine.causes import sentence
from subord.core.carriage.engine.interface import Answer
from subord.core.carriage.engine.ranges import Ranges
from subord.core.events import LostCause
from subord.core.identity.identity import NO_IDENTITY, WORDS
from subord.core.members import statements
from subord.core.members.membership import DOCUMENTS, REGISTER
from subord.core.members.register import Record, Run, State
from subord.core.members.statements import Maintain
from subord.core.view import Liveness, Refusal
from subord.runtime.problems import LATELY_S, LINES_MAX, RecentProblems, of_loss
from subord.sealing.host_certificates import Word
from subord.sealing.keys import key_of, keyring_of
from subord.services.asking import coverage_line
from tests.api.fake_node_api import FakeNode, World, key_ring_of

BUDGET_S = 0.8


def refusal(number: int, reason: str = "fan-out 8, we use 4", ago_s: float = 2.0) -> Refusal:
    return Refusal(address=f"10.0.0.{number}", by="us", reason=reason, ago_s=ago_s, times=3)


async def found(world: World, position: int = 1) -> ErrorsDocument:
    return await problems.find(world.node(position), BUDGET_S)


async def said_by(node: FakeNode) -> tuple[Said, ...]:
    said = own_problems.decoded(await problems.answer(node, b""))
    assert said is not None
    return said.problems


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


async def test_only_a_silent_node_is_missing_and_not_those_below() -> None:
    world = World()
    world.hung = {2}
    document = await found(world)
    assert (document.nodes, document.silent, document.silent_nodes) == (10, ("10.0.0.2",), 1)
    assert document.coverage is not None
    assert [(each.cause, each.addresses) for each in document.coverage.missing] == [("silent", ("10.0.0.2",))]
    assert (document.coverage.asked, document.coverage.told, document.complete) == (11, 10, True)


async def test_an_answer_that_cannot_be_read_counts_as_left_out() -> None:
    world = World()
    world.lying[2] = b"[]"
    document = await found(world)
    assert (document.nodes, document.silent, document.more) == (11, (), 1)


async def test_nodes_below_a_hung_root_answer_as_far_as_a_node_lists_them(autojump_clock: MockClock) -> None:
    world = World()
    world.hung = {1}
    document = await found(world, 9)
    assert trio.current_time() <= BUDGET_S
    assert (document.asked, document.nodes, document.complete) == ("10.0.0.9", 7, False)
    assert document.note == "10.0.0.1 (root) could not be asked, nor another node that lists all members"
    assert (document.silent, document.silent_nodes) == (tuple(f"10.0.0.{n}" for n in (1, 3, 6, 7)), 4)
    assert document.listed is None


async def test_a_node_that_knows_no_root_says_so(autojump_clock: MockClock) -> None:
    world = World({2: None, 4: 2})
    world.hung = {2}
    node = world.node(4)
    world.leaders[4] = None
    assert (await problems.find(node, BUDGET_S)).complete
    answer = Answer(targets=Ranges.of((4,)), missing=(("no coordinator", Ranges.of((4,))),), is_resolved=False)
    told = Answered(node, answer, covered(node, answer, 0.1))
    assert told.note == "10.0.0.4 knows no root just now: other nodes than those below it could not be asked"


@pytest.mark.parametrize("lacks", ["too large", "busy", "cancelled", "expired"])
def test_an_order_that_was_not_passed_on_says_nothing_of_a_coordinator(lacks: str) -> None:
    """The cause of the missing nodes says it; the root is well."""
    node, all_nodes = World().node(4), Ranges.of((1, 2, 4))
    answer = Answer(targets=all_nodes, missing=((lacks, all_nodes),), is_resolved=False, lacks=lacks)
    coverage = covered(node, answer, 0.1)
    assert (coverage.complete, coverage.note) == (False, None)
    found = {**msgspec.to_builtins(coverage), "missing": [{"cause": lacks, "count": 3, "addresses": [], "nodes": ""}]}
    assert "coordinator" not in coverage_line(found)
    assert Answered(node, answer, coverage).note == sentence(lacks)
    unknown = Answer(targets=Ranges(()), is_resolved=False, lacks=lacks)
    assert covered(node, unknown, 0.1).note == sentence(lacks)


@pytest.mark.parametrize("lacks", ["no coordinator", "older release", "word of a later release"])
def test_an_order_without_coordinator_says_so(lacks: str) -> None:
    node, own = World().node(4), Ranges.of((4,))
    answer = Answer(targets=own, missing=((lacks, own),), is_resolved=False, lacks=lacks)
    assert covered(node, answer, 0.1).note == "no coordinator that knows all members was found"


def test_the_answer_of_a_young_root_says_so_without_advice() -> None:
    """To ask again would repeat an order with effects. The root lists so many nodes all the same."""
    node, answer = World().node(4), Answer(targets=Ranges.of((1, 2)), is_resolved=False, lacks="young root")
    answered = Answered(node, answer, covered(node, answer, 0.1))
    assert answered.coverage.note == answered.note == YOUNG_NOTE
    assert "again" not in YOUNG_NOTE
    assert problems.document(answered).listed == 2


async def test_a_young_root_reports_to_older_nodes_not_as_of_all() -> None:
    world = World()
    assert (await problems.of_branch(world.node(1), BUDGET_S, is_whole=True)).is_whole
    world.newly_placed = {1}
    assert not (await problems.of_branch(world.node(1), BUDGET_S, is_whole=True)).is_whole


async def test_nodes_of_an_older_release_are_named_and_not_called_silent() -> None:
    world = World()
    world.older = {2, 3}
    world.gone = {3}
    document = await found(world)
    assert (document.older, document.older_nodes, document.silent) == (("10.0.0.2", "10.0.0.3"), 2, ())
    assert [(each.version, each.nodes) for each in document.versions] == [(__version__, 10)], "of 9, and of 2"


@pytest.mark.parametrize("answers", [True, False])
async def test_a_root_of_an_older_release_asks_in_its_way(answers: bool) -> None:
    """It knows all members, and cannot coordinate an order."""
    world = World()
    world.older = {1}
    problem_of_root = report(problem(3, text="lost its leader 10.0.0.99: x"))
    world.lying[1] = msgspec.json.encode(problem_of_root) if answers else b"{}"
    document = await found(world, 9)
    if answers:
        assert (document.asked, document.complete, document.coverage) == ("10.0.0.1", True, None)
        assert texts(document) == {"lost its leader 10.0.0.99: x": ("10.0.0.3",)}
    else:
        assert (document.asked, document.complete, document.nodes) == ("10.0.0.9", False, 7)
        assert document.older == tuple(f"10.0.0.{n}" for n in (1, 3, 6, 7))


async def test_a_node_of_release_0_2_gets_the_problems_of_a_branch() -> None:
    world = World()
    world.hung, world.older = {5}, {9}
    for position, words, count in ((2, (), 5), (1, ("everybody",), 9)):
        question = Question("problems", words, BUDGET_S)
        told = msgspec.json.decode(await peer_answers.answer(world.node(position), question), type=ProblemsDocument)
        assert (told.nodes, told.silent, told.older, told.older_nodes) == (count, ("10.0.0.5",), ("10.0.0.9",), 1)
        assert told.is_whole is bool(words)


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
    world.lying[9] = own_problems.encoded([(Said("version", "runs version 0.1.0"), ())])
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
    assert [each.kind for each in whole.problems].count("lost") == own_problems.OF_A_KIND_MIN
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
    found = {(each.text, each.addresses) for each in await said_by(node) if each.kind == "stream"}
    words = "its key is not that of this address: another machine, or the node lost its key"
    assert found == {(f"no TLS with it: tls_foreign_key ({words})", ("10.0.0.8",))}


async def test_a_refusal_for_its_identity_names_the_node_that_is_refused() -> None:
    world = World()
    word = WORDS[NO_IDENTITY]
    world.refusals = (refusal(30, word), *(msgspec.structs.replace(refusal(n, word), by="them") for n in (3, 4)))
    own, other = [each for each in await said_by(world.node(2)) if each.kind == "refused"]
    assert (sorted({own.addresses, other.addresses}), own.text) == ([(), ("10.0.0.30",)], other.text)


def test_each_reason_of_the_identity_is_explained() -> None:
    words = set(get_args(Word)) - {""} | {"missing"}
    assert {f"tls_certificate_{word}" for word in words} <= own_problems.MEANINGS.keys()


async def test_without_the_root_the_own_register_names_the_dead(autojump_clock: MockClock) -> None:
    world = World()
    world.hung = {1}
    node = world.known[9] = world.node(9)
    node.tracker.spread(REGISTER, [Run(1, 11, Record(1, State.UP)), Run(12, 13, Record(2, State.DOWN, 1000, 3))])
    document = await problems.find(node, BUDGET_S)
    assert not document.complete
    assert texts(document) == {problems.DOWN_TEXT: ("10.0.0.12", "10.0.0.13")}
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


# -- what one node says -----------------------------------------------------------------------------------------


def line(number: int, *addresses: str, kind: str = "dropped", text: str = "", age_s: int = -1) -> own_problems.Line:
    return Said(kind, text or f"{number:0200}", age_s), addresses


def test_what_one_node_says_is_bounded() -> None:
    many = [f"2001:db8::{number:x}" for number in range(70)]
    said = [line(number, *many, kind="refused" if number % 2 else "odd") for number in range(100)]
    result = own_problems.encoded([*said, line(0, kind="lost")])
    told = own_problems.decoded(result)
    assert told is not None
    assert len(result) <= RESULT_BYTES_MAX
    assert len(told.problems) + told.more == 101
    first = told.problems[0]
    assert (first.kind, first.nodes, len(first.addresses)) == ("refused", 70, own_problems.NAMED_OF_ONE_MAX)
    assert "lost" in {each.kind for each in told.problems}, "no kind displaces all of another one"
    short = own_problems.decoded(own_problems.encoded(line(number) for number in range(100)))
    assert short is not None
    assert (len(short.problems), short.more) == (own_problems.PROBLEMS_MAX, 36)


def test_equal_nodes_say_the_same() -> None:
    """Whatever their own addresses are, and in which moment they are asked."""
    results = set()
    for position, ago_s in ((4, 21.0), (5, 29.9)):
        node = World().node(position)
        node.counters.problems = RecentProblems(iter((100.0, 100.0 + ago_s)).__next__)
        node.counters.problems.note("lost", "lost its leader 10.0.0.2: closed")
        results.add(trio.run(problems.answer, node, b""))
    assert len(results) == 1


@pytest.mark.parametrize(("ago_s", "told"), [(0.4, 0), (9.9, 9), (10.0, 10), (59.0, 50), (60.0, 60), (599.0, 540)])
def test_steps_of_ages(ago_s: float, told: int) -> None:
    assert own_problems.age_step(ago_s) == told


def test_the_latest_of_several_ages_counts() -> None:
    said = own_problems.decoded(
        own_problems.encoded([line(1, "10.0.0.7", age_s=5), line(1, "10.0.0.8", age_s=3), line(1, age_s=9)])
    )
    assert said is not None
    assert {(each.age_s, each.nodes) for each in said.problems} == {(3, 2), (9, 0)}
