"""An intruder without the key: what it makes and hears, bit by bit, and a small siege of real daemons."""

import ipaddress
import json
import os
import random
import struct
from dataclasses import asdict
from types import SimpleNamespace

import pytest
from loops import over

from subord.wire import codec

from .lab_helpers import netlab, refused, run_lab

pytestmark = pytest.mark.lab

KEY = bytes(range(32))
HOME, AWAY = "10.0.0.4", "10.0.0.9"
TLS_HELLO = b"\x16\x03\x01\x00\x05hello" + b"\x17\x03\x03\x00\x04data"


def packed(address):
    return ipaddress.ip_address(address).packed


def datagram(payload, source=AWAY, target=HOME):
    frames, layout = netlab("attack.frames"), netlab("topology.layout")
    macs = layout.hardware_address(target), layout.hardware_address(source)
    return frames.Packet(*macs, frames.UDP, packed(source), packed(target), 7117, 7117, payload)


def segment(payload, number, flags=0, source_port=40000):
    """A frame of TCP, as short as it may be."""
    tcp = struct.pack("!HHIIBBHHH", source_port, 7117, number % (1 << 32), 0, 5 << 4, flags, 0, 0, 0) + payload
    ip = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 20 + len(tcp), 0, 0, 64, 6, 0, packed(AWAY), packed(HOME))
    return bytes(12) + b"\x08\x00" + ip + tcp


def options(nodes=12):
    addresses = tuple(f"10.0.0.{number}" for number in range(1, nodes + 1))
    return netlab("processes.options").Options(name="none", addresses=addresses, network="10.0.0.0/24")


# -- frames -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (bytes.fromhex("0001f203f4f5f6f7"), 0x220D),  # RFC 1071, section 3
        (bytes.fromhex("4500007300004000401100 00c0a80001c0a800c7".replace(" ", "")), 0xB861),
        (b"\x01", 0xFEFF),  # of an odd length: as though a zero followed
        (b"", 0xFFFF),
    ],
)
def test_checksums(data, expected):
    assert netlab("attack.frames").checksum(data) == expected


@over("payload", [b"", b"odd", bytes(1200)])
def test_what_is_built_is_parsed_as_it_was(payload):
    frames = netlab("attack.frames")
    packet = datagram(payload)
    frame = frames.built(packet)
    assert frames.parsed(frame) == packet
    assert frames.parsed(frame + b"padding") == packet
    for length in range(len(frame) - 1):
        assert frames.parsed(frame[:length]) is None
    assert frames.checksum(frame[14:34]) == 0  # with its own sum in it a header adds up to nothing
    assert frame[40:42] == b"\0\0"


def test_noise_and_later_fragments_are_nothing():
    frames, chance = netlab("attack.frames"), random.Random(1)
    for _ in range(2000):
        frames.parsed(chance.randbytes(12) + b"\x08\x00" + chance.randbytes(chance.randint(0, 60)))
    frame = bytearray(frames.built(datagram(b"hello")))
    frame[20:22] = b"\x00\x10"
    assert frames.parsed(bytes(frame)) is None


# -- forgeries --------------------------------------------------------------------------------------------


def conversation():
    """Three nodes that have talked to each other, and all that was on the codec."""
    from subord.sealing.keys import key_of, keyring_of
    from subord.sealing.sealer import Sealer

    ends = [(address, 7117) for address in (HOME, AWAY, "10.0.0.7")]
    ring = keyring_of(key_of(KEY))
    sealers = {end: Sealer(ring, end, 1000 + number, bytes(32), 0.0) for number, end in enumerate(ends)}
    datagrams = []

    def deliver(data, source, target):
        datagrams.append(datagram(data, source[0], target[0]))
        for reply in sealers[target].open(data, source, 0.0).replies:
            deliver(reply, target, source)

    for turn in range(6):
        for source in ends:
            for target in ends:
                if source != target:
                    deliver(sealers[source].seal(b"%d, hello" % turn, target), source, target)
    return sealers, datagrams


def test_no_forgery_is_believed():
    sealers, datagrams = conversation()
    forger = netlab("attack.forging").Forger(datagrams, "10.0.0.1", options(), "seed")
    genuine, seen = set(datagrams), set()
    for number in range(4000):
        way, forged = forger.forge()
        target = str(ipaddress.ip_address(forged.target)), forged.target_port
        source = str(ipaddress.ip_address(forged.source)), forged.source_port
        assert len(netlab("attack.frames").built(forged)) <= netlab("attack.frames").FRAME_BYTES_MAX
        if target in sealers:
            opened = sealers[target].open(forged.payload, source, float(number))
            assert opened.content is None, (way, forged)
        if forged not in genuine:
            seen.add(way)
    assert seen == set(forger.ways)


def test_the_same_chance_makes_the_same_forgeries():
    _, datagrams = conversation()
    ones, others = ([forger.forge() for _ in range(200)] for forger in two_forgers(datagrams))
    assert ones == others


def two_forgers(datagrams):
    return [netlab("attack.forging").Forger(datagrams, "10.0.0.1", options(), "seed") for _ in range(2)]


def test_ways_of_forging():

    _, datagrams = conversation()
    forger = netlab("attack.forging").Forger(datagrams, "10.0.0.1", options(), "seed")
    genuine_one = datagrams[0]
    made = {way: make(genuine_one) for way, make in forger.ways.items()}
    assert len(made["truncated"].payload) < len(genuine_one.payload)
    assert len(made["oversized"].payload) > 1232
    assert made["unknown_key"].payload[8:] == genuine_one.payload[8:]
    for way, (begin, end) in {"other_boot": (8, 16), "other_number": (16, 24), "other_ticket": (24, 32)}.items():
        payload = made[way].payload
        assert (payload[:begin], payload[end:]) == (genuine_one.payload[:begin], genuine_one.payload[end:])
    assert made["redirected"].target_mac == netlab("topology.layout").hardware_address(
        str(ipaddress.ip_address(made["redirected"].target))
    )
    assert made["redirected"].target != genuine_one.target
    assert (made["reflected"].source, made["reflected"].target) == (genuine_one.target, genuine_one.source)
    said = {type(codec.decode(forger.ways["clear"](genuine_one).payload)).__name__ for _ in range(200)}
    assert said == {"Propose", "Accept", "Advice", "Back", "Meet", "Announce", "Goodbye"}


# -- the tape ---------------------------------------------------------------------------------------------


def test_a_tape_ends_with_its_last_whole_frame(tmp_path):
    tape = tmp_path / "tape"
    tape.write_bytes(b"\0\0\0\3one" + b"\0\0\0\0" + b"\0\0\0\5thr")
    assert netlab("attack.recorder").read(tape) == [b"one", b""]
    tape.write_bytes(b"\0\0\0\3one\0\0")
    assert netlab("attack.recorder").read(tape) == [b"one"]


def plain(*recorded, words=()):
    return [finding.why for finding in netlab("attack.plaintext").findings(recorded, words, KEY)]


def udp(payload):
    return netlab("attack.frames").built(datagram(payload))


def test_sealed_datagrams_are_not_plain():
    _, datagrams = conversation()
    tape = list(map(netlab("attack.frames").built, datagrams))
    assert plain(*tape) == []
    assert plain(tape[0], words=[datagrams[0].payload[:8]]) == [f"the word {datagrams[0].payload[:8]!r} in the clear"]
    assert plain(udp(b"s\x01" + bytes(60))) == ["a datagram that begins with 73010000"]
    assert plain(udp(b"")) == ["a datagram that begins with nothing"]
    words = netlab("attack.plaintext").known_words([AWAY], KEY)
    assert {b"\xa810.0.0.9", b"\xa6roster", b"\xa4edge", b"\xa6status", KEY} <= set(words)


def test_a_seal_that_only_pretends_is_found():
    """Words in the clear behind a genuine header."""
    from subord.core.messages import Back
    from subord.wire.codec import encode

    _, datagrams = conversation()
    for clear in (encode(Back(1, 2)), datagrams[0].payload[32:-1] + b"?"):
        assert plain(udp(datagrams[0].payload[:32] + clear)) != []


@pytest.mark.parametrize("begin", [7, (1 << 32) - 6])  # numbers go round
def test_streams_are_tls_wherever_they_are_cut(begin):
    for cut in range(1, len(TLS_HELLO)):
        pieces = [
            segment(b"", begin, flags=2),
            segment(TLS_HELLO[cut:], begin + 1 + cut),  # the second piece overtakes the first
            segment(TLS_HELLO[:cut], begin + 1),
            segment(TLS_HELLO[: cut // 2], begin + 1),  # and a part of that is said again
        ]
        assert plain(*pieces) == []
        assert plain(*pieces, words=[b"lo\x17\x03"]) == ["the word b'lo\\x17\\x03' in the clear"]


def test_what_is_not_tls_is_found_where_it_begins():
    opening = segment(b"", 1, flags=2)
    assert plain(opening, segment(b"\0\0\0\x0e\x81\xa7purpose", 2)) == [
        "a stream that is not TLS at byte 0: 0000000e81"
    ]
    assert plain(opening, segment(b"\0", 2)) == ["a stream that is not TLS: 00"]
    assert plain(opening, segment(TLS_HELLO + b"and now in the clear", 2)) == [
        "a stream that is not TLS at byte 19: 616e64206e"
    ]
    assert plain(opening, segment(b"\x17\x03\x03\x00\x01x", 2)) == ["a stream that is not TLS at byte 0: 1703030001"]
    assert plain(opening) == []
    assert plain(opening, segment(b"\x15\x03\x03\x00\x02\x02\x50", 2)) == []  # turned away


def test_of_a_stream_that_was_there_before_only_words_are_found():
    said = segment(b"the middle of a record, ros", 77), segment(b"ter and so on", 77 + 27)
    assert plain(*said) == []
    assert plain(*said, words=[b"roster"]) == ["the word b'roster' in the clear"]
    gap = segment(b"ros", 77), segment(b"ter", 81)
    assert plain(*gap, words=[b"roster"]) == []


def test_a_port_that_is_used_again_is_another_stream():
    plaintext = netlab("attack.plaintext")
    first = [segment(b"", 1, flags=2), segment(TLS_HELLO, 2)]
    second = [segment(b"", 900, flags=2), segment(TLS_HELLO, 901)]
    assert plain(*first, *second) == []
    assert plaintext.handshakes(first) == 0  # only one side of it was heard
    assert plaintext.handshakes([*first, *second]) == 1


def test_who_speaks_is_known_by_datagrams_alone():
    frames, plaintext = netlab("attack.frames"), netlab("attack.plaintext")
    heard = [frames.built(datagram(b"once", each)) for each in (HOME, AWAY, HOME)]
    away, home = (str(ipaddress.ip_address(each.source)) for each in (datagram(b""), datagram(b"", HOME)))
    assert plaintext.senders([*heard, b"noise"]) == {home, away}
    assert plaintext.senders([segment(TLS_HELLO, 2)]) == set()


def test_a_listener_who_has_not_heard_all_goes_on():
    siege, frames, events = netlab("attack.experiment"), netlab("attack.frames"), netlab("eventlog.events")
    heard = [frames.built(datagram(b"once", each)) for each in (HOME, AWAY)]
    cluster = events.Cluster()
    for address in (HOME, AWAY):
        cluster.nodes[address] = events.NodeSeen(address)
    cluster.nodes["10.0.0.5"] = events.NodeSeen("10.0.0.5", alive=False)
    lab = SimpleNamespace(look=lambda: cluster)
    assert siege.unrecorded(lab, heard[:1]) == {AWAY}
    assert siege.unrecorded(lab, heard) == set()
    begun = [segment(b"", 1, flags=2), segment(TLS_HELLO, 2)]
    assert not siege.is_complete(lab, [*heard, *begun])  # one side of one stream


# -- words ------------------------------------------------------------------------------------------------


def test_an_intruder_does_nothing_outside_of_a_lab():
    intruder = netlab("attack.intruder")
    for kind in intruder.KINDS:
        order = intruder.Order(
            kind=kind, own="192.0.2.1", options=options().to_json(), per_s=1, for_s=0, recording="none"
        )
        result = run_lab("intrude", json.dumps(asdict(order)))
        assert result.returncode == 1
        assert "Nothing was sent." in result.stderr


def test_only_words_in_the_clear_need_a_lab_without_a_key():
    from netlab.scenarios.runner import sends_unsealed

    from subord.sim.scenario.definition import Babble, Cluster, Scenario, Start

    def script(what):
        steps = (Start(), Babble(source="1", target="2", what=what))
        return Scenario(title="a test", cluster=Cluster(nodes=3), steps=steps)

    found = {what: sends_unsealed(script(what)) for what in ("malformed", "oversized", "version", "terms")}
    assert found == {"malformed": False, "oversized": False, "version": True, "terms": True}


def test_a_siege_needs_some_nodes():
    result = refused("evaluate", "siege", "--nodes", "11")
    assert result.returncode == 1
    assert "12 nodes or more: correct --nodes. Nothing was done." in result.stderr


def test_the_wire_is_where_all_cables_end():
    Lab = netlab("lab").Lab  # noqa: N806
    with Lab(3) as lab:
        seen = lab.run("wire", "cat", "/proc/net/dev").stdout
        names = {line.split(":")[0].strip() for line in seen.splitlines()[2:]}
        assert names == {"lo", "br0", "n1", "n2", "n3"}
        assert lab.run("wire", "sh", "-c", "echo $SUBORD_SOCKET").stdout == "\n"
        with pytest.raises(netlab("errors").LabError, match="neither position nor address"):
            lab.run("bridge", "true")


# -- sieges -----------------------------------------------------------------------------------------------


WORSE = (
    ({"fault": "the lab fell over"}, "the lab fell over"),
    ({"plain": 1}, "1 findings in the clear"),
    ({"recorded_handshakes": 0}, "no handshake was recorded"),
    ({"recorded_unheard": ["10.0.0.4", "10.0.0.5"]}, "2 nodes were not recorded"),
    ({"recorded_lost": 7}, "7 frames are not in the recording"),
    ({"recorded_cut": True}, "the recording was too short"),
    ({"others_moved": 2}, "2 moves of others"),
    ({"moved_before_kill": 2}, "2 moves before a node was killed"),
    ({"orphan_moves_max": 3}, "an orphan moved 3 times"),
    ({"roots": 2}, "2 roots"),
    ({"led_by_intruder": 1}, "1 were led by the intruder"),
    ({"pretender_tree_nodes": 2}, "the intruder's tree had 2 nodes"),
    ({"pretender_led": 1}, "the intruder had a leader"),
    ({"knocks_answered": 1}, "1 connections were answered"),
    ({"ended": 1}, "1 daemons ended"),
    ({"siege_orphans_never": 1}, "1 orphans stayed without a leader"),
    ({"siege_home_s": None}, "the killed one did not come home"),
    ({"siege_back_s": None}, "its orphans did not come back"),
)


def test_a_small_siege():
    """Nothing is understood, no node moves but the orphans, they are healed, and all that was tried is counted."""
    siege = netlab("attack.experiment")
    plan = siege.Plan(nodes=(12,), fanout=2, repeat=1, per_s=600, seconds=6, rest_s=1)
    (run,) = plan.runs()
    found = {**run.about, "fault": None, **run.measure()}
    assert siege.faults_of(found) == []
    assert found["recorded_frames"] > 0
    assert min(found["sent"].values()) > 0
    assert found["root_addresses"] == ["10.0.0.2"]
    assert found["siege_orphans"] > 0
    assert 0 < found["siege_orphans_p50_s"] <= found["siege_orphans_max_s"] < siege.HEAL_S_MAX
    assert found["resident_mib_max_after"] < found["resident_mib_max_before"] + 20
    assert found["log_lines_max"] < 30
    assert "1 of 1 runs held" in siege.table([json.loads(json.dumps(found))])
    for worse, words in WORSE:
        assert siege.faults_of({**found, **worse}) == [words]


def test_in_a_lab_without_a_key_the_recorder_finds_what_is_said():
    """So that the finding of nothing means something."""
    siege, recorder, plaintext = (netlab(f"attack.{each}") for each in ("experiment", "recorder", "plaintext"))
    with netlab("lab").Lab(7, 2, insecure=True, name=f"plain-{os.getpid()}") as lab:
        lab.start_all()
        lab.wait_stable(siege.STABLE_S_MAX)
        tape = lab.directory.path / "tape"
        found = siege.record(lab, tape, lab.address(2))
        secret = siege.secret_of(lab)
        words = plaintext.known_words(lab.options.addresses, secret)
        why = [finding.why for finding in plaintext.findings(recorder.read(tape), words, secret)]
    assert found["plain"] == len(why) > 10
    assert found["recorded_lost"] == 0
    assert sum(each.startswith("a datagram that begins with 7301") for each in why) > 10
    assert "the word b'\\xa4edge' in the clear" in why
    assert "the word b'\\xa6roster' in the clear" in why
