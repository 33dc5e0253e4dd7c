"""Sealed clusters: what the seal refuses, rotations in the documented order, and the effects of a wrong order."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from subord.core.carriage.documents import RING, Document
from subord.core.carriage.orders import Verdict
from subord.core.members.membership import DOCUMENTS
from subord.core.messages import Announce, Ask, Terms
from subord.sealing.keys import key_of, keyring_of
from subord.sealing.rotation import fingerprint, install, ring_order
from subord.sealing.sealer import Broken, Sealer
from subord.sim.checkers.liveness import complaint
from subord.sim.player import Play
from subord.sim.scenario.definition import ScenarioError, read
from subord.sim.violation import Violation
from subord.sim.world import sealed
from subord.sim.world.operator import Operator
from subord.sim.world.rings import Rings
from subord.sim.world.sealed import PORT, Seals
from subord.sim.world.transit import flipped
from subord.wire.codec import encode

START = '{ do = "start" }, { do = "pass", s = 20 }'
WAIT = 'do = "pass", s = 10'
INSTALL, USE, REMOVE = (f'do = "rotate", what = "{what}"' for what in ("install", "use", "remove"))


def played(*steps: str, cluster: str = "nodes = 7") -> Play:
    """A Play after these steps, before the end of faults."""
    more = "".join(f", {{ {step} }}" for step in steps)
    play = Play(
        read(f'title = "t"\ncluster = {{ {cluster}, timing = "lab", sealed = true }}\nsteps = [ {START}{more} ]\n')
    )
    for step in play.script.steps:
        play._do(step)
    return play


def seals_of(play: Play) -> Seals:
    assert play.world.seals is not None
    return play.world.seals


def rings_of(play: Play) -> Rings:
    return seals_of(play).rings


def ask(play: Play) -> Ask:
    return Ask(play.world.nodes[3].context.incarnation, 1, Terms.of(play.settings))


def clear_counts(play: Play) -> None:
    """From now on only what a test delivers is counted."""
    seals_of(play).broken.clear()


# -- what is refused ----------------------------------------------------------------------------------------


def test_a_sealed_cluster_becomes_a_tree_with_sealed_datagrams() -> None:
    play = played()
    assert complaint(play.world, home=True) is None
    assert seals_of(play).opened > 100
    assert set(seals_of(play).broken) == {Broken.FIRST_CONTACT}
    assert not play.world.dropped


def test_a_datagram_is_opened_once_and_a_repeated_one_is_dropped() -> None:
    play = played()
    world, seals = play.world, seals_of(play)
    clear_counts(play)
    data = seals.seal(3, 1, ask(play), encode(ask(play)))
    assert seals.open(3, 1, data, by_multicast=False) == encode(ask(play))
    for _ in range(2):
        assert seals.open(3, 1, data, by_multicast=False) == b""
    assert seals.broken == {Broken.REPLAY: 2}
    before = world.events
    world.deliver(3, 1, data)
    assert world.events == before, "no node gets it"


def test_a_flipped_bit_anywhere_is_dropped() -> None:
    play = played()
    seals = seals_of(play)
    clear_counts(play)
    data = seals.seal(3, 1, ask(play), encode(ask(play)))
    for at in range(len(data)):
        changed = bytearray(data)
        changed[at] ^= 1 << at % 8
        before = play.world.events
        play.world.deliver(3, 1, bytes(changed))
        assert play.world.events == before
    assert seals.broken.total() == len(data)
    assert seals.broken[Broken.BAD_TAG] > len(data) - 32
    assert seals.open(3, 1, data, by_multicast=False), "the datagram itself is still good"


def test_transit_flips_one_bit_of_a_sealed_datagram() -> None:
    play = played()
    data = seals_of(play).seal(3, 1, ask(play), encode(ask(play)))
    changed = flipped(data, play._chance)
    different = [one ^ other for one, other in zip(data, changed, strict=True) if one != other]
    assert len(different) == 1
    assert different[0].bit_count() == 1


@pytest.mark.parametrize("step", ['do = "replay", later_s = 5', 'do = "flip"'])
def test_replayed_and_flipped_datagrams_of_a_whole_cluster_change_nothing(step: str) -> None:
    play = played()
    before = play.world.moved_at
    every = f'{{ {step}, source = "all", target = "all", share = 0.1, for_s = 20 }}, {{ do = "pass", s = 40 }}'
    for each in read(f'title = "t"\ncluster = {{ nodes = 7 }}\nsteps = [ {every} ]\n').steps:
        play._do(each)
    what = Broken.REPLAY if "replay" in step else Broken.BAD_TAG
    assert seals_of(play).broken[what] > 10
    assert play.world.moved_at == before


def test_outsiders_are_refused() -> None:
    play = played()
    seals, world = seals_of(play), play.world
    clear_counts(play)
    own = world.address_of(3), PORT
    outsider = Sealer(keyring_of(key_of(bytes(32))), own, 1 << 40, bytes(32), world.now)
    before = world.events
    world.deliver(3, 1, encode(ask(play)))
    world.deliver(3, 1, outsider.seal(encode(ask(play)), (world.address_of(1), PORT)))
    assert world.events == before
    assert seals.broken == {Broken.UNSEALED: 1, Broken.NO_KEY: 1}


def test_a_datagram_for_a_stopped_process_is_opened_when_it_resumes() -> None:
    play = played('do = "pause", nodes = "1"', 'do = "pass", s = 0.5')
    world = play.world
    opened = seals_of(play).opened
    data = seals_of(play).seal(3, 1, ask(play), encode(ask(play)))
    world.deliver(3, 1, data)
    assert seals_of(play).opened == opened
    world.resume(1)
    assert seals_of(play).opened > opened


# -- violations are found -------------------------------------------------------------------------------------


def test_a_seal_that_opens_a_datagram_twice_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("subord.sealing.replay.Window.accept", lambda _self, _number: True)
    with pytest.raises(Violation, match=r"S6.*changed or repeated"):
        played('do = "replay", source = "all", target = "all", share = 1.0, later_s = 1', WAIT)


def test_a_seal_that_does_not_check_the_tag_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    def opened(_self: object, *_words: object, **_more: object) -> sealed.Opened:
        return sealed.Opened(b"anything")

    play = played()
    monkeypatch.setattr(Sealer, "open", opened)
    with pytest.raises(Violation, match=r"S6.*of no member"):
        play.world.deliver(3, 1, encode(ask(play)))


def test_a_seal_that_refuses_its_own_key_is_caught() -> None:
    play = played()
    data = seals_of(play).seal(3, 1, ask(play), encode(ask(play)))
    sealer = seals_of(play).sealer_of(1)
    sealer.keyring = sealer.keyring._replace(keys={})
    held = seals_of(play)._sealed
    held.update({which: each._replace(ring=sealer.keyring) for which, each in held.items()})
    with pytest.raises(Violation, match=r"S6.*the same key ring"):
        play.world.deliver(3, 1, data)


# -- rotations ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("nodes", ["root", "all"])
def test_a_rotation_in_the_documented_order_keeps_the_tree(nodes: str) -> None:
    with_nodes = f', nodes = "{nodes}", gap_s = 0.3'
    play = played(*(each for what in (INSTALL, USE, REMOVE) for each in (what + with_nodes, WAIT)))
    rings = rings_of(play)
    assert rings.steps == {"install": 1, "use": 1, "remove": 1, "refused": 0}
    assert {len(ring.keys) for ring in rings.of.values()} == {1}
    assert {ring.revision for ring in rings.of.values()} == {3}
    assert all(seals_of(play).sealer_of(each).keyring == rings.of[each] for each in range(1, 8))
    assert play.world.moved_at < 20
    play._end_faults()
    assert complaint(play.world, home=True) is None


def test_the_next_step_follows_from_the_ring() -> None:
    play = played(*['do = "rotate"', WAIT] * 6)
    assert rings_of(play).steps == {"install": 2, "use": 2, "remove": 2, "refused": 0}


AWAY = ('do = "partition", groups = ["6-7"]', 'do = "pass", s = 5')
BACK = ('do = "mend"', 'do = "pass", s = 60')


@pytest.mark.slow
def test_remove_is_refused_while_a_node_does_not_have_the_newest_ring() -> None:
    play = played(*AWAY, INSTALL, WAIT, USE, WAIT, REMOVE, WAIT, *BACK)
    assert rings_of(play).steps["refused"] == 1
    assert complaint(play.world, home=True) is None
    assert {ring.revision for ring in rings_of(play).of.values()} == {2}


@pytest.mark.slow
def test_a_key_that_is_removed_before_the_new_one_is_everywhere_splits_the_tree() -> None:
    forced = REMOVE + ", forced = true"
    play = played(*AWAY, INSTALL, WAIT, USE, WAIT, forced, WAIT, *BACK)
    found = complaint(play.world, home=True)
    assert found is not None
    assert found[0] == "L1"
    assert seals_of(play).broken[Broken.NO_KEY] > 0
    more = "".join(f", {{ {step} }}" for step in (*AWAY, INSTALL, WAIT, USE, WAIT, forced, WAIT))
    script = f'title = "t"\ncluster = {{ nodes = 7, timing = "lab", sealed = true }}\nsteps = [ {START}{more} ]\n'
    with pytest.raises(Violation, match="L1"):
        Play(read(script)).run()


@pytest.mark.parametrize("disk", ["true", "false"])
def test_a_node_away_for_two_steps_gets_the_ring_and_one_away_for_three_has_the_file(disk: str) -> None:
    cluster = f"nodes = 7, disk = {disk}"
    two = played('do = "kill", nodes = "5"', INSTALL, WAIT, USE, WAIT, 'do = "start"', WAIT, cluster=cluster)
    assert rings_of(two).of[5] == rings_of(two).of[1]
    three = played(
        'do = "kill", nodes = "5"', INSTALL, WAIT, USE, WAIT, REMOVE, WAIT, 'do = "start"', WAIT, cluster=cluster
    )
    assert rings_of(three).steps["remove"] == 1
    assert complaint(three.world, home=True) is None
    assert rings_of(three).of[5] == rings_of(three).of[1]


def test_the_disk_keeps_the_ring_and_an_old_image_brings_back_the_former_one() -> None:
    image, restore = 'do = "image", nodes = "5"', 'do = "restore", nodes = "5"'
    restart = 'do = "restart", nodes = "5"', 'do = "pass", s = 0.1'
    kept = played(image, INSTALL, WAIT, *restart)
    assert rings_of(kept).of[5].revision == 1
    former = played(image, INSTALL, WAIT, USE, WAIT, restore, *restart)
    assert rings_of(former).of[5].revision == 0
    former.world.run(30)
    assert rings_of(former).of[5].revision == 2


@pytest.mark.slow
def test_a_root_that_restarts_with_the_former_file_is_found_by_announcements() -> None:
    """Seeds 11 and 33 of the kind `rotation`: the root cannot read announcements under the new key alone."""
    cluster = 'positions = "8928,11240,14034,48788", announce = true, disk = false'
    for away in ("8928", "11240,14034,48788"):
        play = played(
            INSTALL, WAIT, USE, WAIT, f'do = "kill", nodes = "{away}"', WAIT, 'do = "start"', WAIT, cluster=cluster
        )
        play.world.run(60)
        assert complaint(play.world, home=True) is None
        assert {ring.revision for ring in rings_of(play).of.values()} == {2}


def test_a_sealed_announcement_arrives() -> None:
    play = played(cluster='positions = "40,9000", announce = true')
    assert play.world.leader_of(9000) == 40
    assert play.world.sent[Announce.__name__] > 0


def test_a_cluster_without_keys_has_none_to_rotate() -> None:
    with pytest.raises(ScenarioError, match=r"step 1 \(rotate\): the cluster has no keys; write `sealed = true`"):
        read('title = "t"\ncluster = { nodes = 3 }\nsteps = [ { do = "rotate" } ]\n')


@pytest.mark.slow
def test_two_hosts_with_one_address_have_a_seal_each() -> None:
    play = played('do = "twin", nodes = "2"', 'do = "pass", s = 20')
    assert play._strangers.twins._nodes[2].context.heard_at > 20, "some datagrams arrive there"
    play._end_faults()
    play.world.run(60)
    assert play.world.leader_of(2) == 1


@pytest.mark.slow
def test_the_scenario_of_the_document_changes_the_key() -> None:
    document = (Path(__file__).parents[2] / "docs" / "scenarios.md").read_text(encoding="utf-8")
    (text,) = re.findall(r"```toml\n(title = \"A change of keys.*?)```", document, re.DOTALL)
    play = Play(read(text))
    play.run()
    assert rings_of(play).steps == {"install": 1, "use": 1, "remove": 1, "refused": 0}


# -- signed rings ---------------------------------------------------------------------------------------------


FORGED = keyring_of(key_of(bytes(32)), revision=1 << 31)


def smuggle(play: Play, position: int, document: Document) -> None:
    """A lying member says what no operator has signed."""
    members = play.world.members
    assert members is not None
    members.of[position].exchange.spread(DOCUMENTS, [document])
    members._after_change(position)


def forged(play: Play) -> Document:
    members = play.world.members
    assert members is not None
    return Document(*ring_order(FORGED, members.wall_ms(1)), b"not of the operator")


@pytest.mark.slow
@pytest.mark.parametrize("liar", [1, 2, 7])
def test_a_ring_that_no_operator_signed_reaches_no_node(liar: int) -> None:
    play = played()
    smuggle(play, liar, forged(play))
    play.world.run(300)
    members = play.world.members
    assert members is not None
    holders = {position for position, each in members.of.items() if RING in each.documents.by_name}
    assert holders == {liar}
    assert {ring.revision for ring in rings_of(play).of.values()} == {0}


def test_a_node_without_a_gate_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Operator, "judge", lambda *_: Verdict(""))
    play = played()
    smuggle(play, 7, forged(play))
    play.world.run(60)
    assert FORGED in rings_of(play).of.values()


def test_a_recorded_ring_does_not_come_back() -> None:
    play = played(INSTALL, WAIT)
    members = play.world.members
    assert members is not None
    recorded = members.of[1].documents.by_name[RING]
    for step in (USE, WAIT, REMOVE, WAIT):
        play._do(read(f'title = "t"\ncluster = {{ nodes = 7, sealed = true }}\nsteps = [ {{ {step} }} ]\n').steps[0])
    for position in members.of:
        smuggle(play, position, recorded)
    play.world.run(60)
    assert {ring.revision for ring in rings_of(play).of.values()} == {3}
    assert {each.documents.by_name[RING].version for each in members.of.values()} == {3}


@pytest.mark.slow
def test_two_rings_of_one_revision_leave_one() -> None:
    """Two operators at once: all nodes come to hold the same ring, and show the conflict."""
    play = played()
    world, members = play.world, play.world.members
    assert members is not None
    for position, number in ((2, 7), (7, 8)):
        order = ring_order(install(rings_of(play).of[position], key_of(bytes([number]) * 32)), members.wall_ms(1))
        members.give(position, order)
    world.run(120)
    rings = rings_of(play).of.values()
    assert {ring.revision for ring in rings} == {1}
    assert len({fingerprint(ring) for ring in rings}) == 1
    assert any(each.documents.conflicts for each in members.of.values())
