"""Former releases and the present one understand each other: documents, files on disk (datagrams: test_wire.py).

Real daemons of each: tests/lab/test_lab_rolling.py.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from releases import OLDEST, PREVIOUS, RELEASES, in_release, wheel_of

import subord
from subord.api.models import document, fields, members
from subord.config.load import load
from subord.core.address.network import Network
from subord.core.carriage.documents import NEVER_MS, Document, Documents
from subord.core.events import Neighbourhood
from subord.core.identity.pins import Pin, Pins
from subord.core.members.journal import Event
from subord.core.members.membership import DOCUMENTS, EVENTS, KEYS, REGISTER, Membership
from subord.core.members.register import Record, Register, Run, State
from subord.core.messages import Terms
from subord.core.settings import Settings
from subord.runtime.state.memory import Memory
from subord.runtime.state.store import FILE_NAME, Store
from subord.sealing.keyfile import Kept, read_kept, write_kept
from subord.sealing.keys import key_of, keyring_of

SETTINGS = Settings(network=Network.parse("10.0.0.0/24"), fanout=2)
TERMS = Terms.of(SETTINGS)
ORDER = Document("strict/on", 1, 5, NEVER_MS, b"\xc3", b"signature")
KNOWN = Neighbourhood(1234567, 2, (2, 3, 1), (4,), 77)


each_release = pytest.mark.parametrize("release", RELEASES)


def numbers(release: str) -> tuple[int, ...]:
    return tuple(map(int, release.split(".")))


@each_release
def test_the_wheel_is_the_release_that_its_name_says(release: str) -> None:
    assert in_release(release, "import subord; print(subord.__version__)").strip() == release
    assert f"| `{wheel_of(release).name}` |" in (wheel_of(release).parent / "README.md").read_text()


def test_there_are_no_other_wheels() -> None:
    found = {path.name for path in wheel_of(PREVIOUS).parent.glob("*.whl")}
    assert found == {wheel_of(release).name for release in RELEASES}


def test_the_present_is_one_release_later() -> None:
    """An upgrade skips no release, so the previous one must be tried."""
    before, now = numbers(PREVIOUS), numbers(subord.__version__)
    assert now[:2] in {(before[0], before[1] + 1), (before[0] + 1, 0)}
    assert numbers(OLDEST) <= before


# -- documents -----------------------------------------------------------------------------------------------------

FORMS = """
import json, msgspec
try:
    from subord.api import forms
    modules = [forms]
except ImportError:  # of 0.1
    from subord.api.models import document, fields, members
    modules = [document, fields, members]
found = [kind for module in modules for kind in vars(module).values() if isinstance(kind, type)]
kinds = [kind for kind in dict.fromkeys(found) if issubclass(kind, msgspec.Struct)]
print(json.dumps(msgspec.json.schema_components(kinds)[1]))
"""


def required(form: dict[str, Any]) -> set[str]:
    return set(form.get("required", ()))


def values(shape: Any, forms: dict[str, Any]) -> set[str]:
    """The words that a field may have, if it is one of some words, here or in a form of its own."""
    if not isinstance(shape, dict):
        return set()
    named = forms.get(shape.get("$ref", "").rpartition("/")[2], {})
    further = (values(each, forms) for each in shape.get("anyOf", ()))
    return set(shape.get("enum", ())).union(named.get("enum", ()), *further)


def complaints(old: dict[str, Any], new: dict[str, Any]) -> list[str]:
    """What a reader by `old` would miss in documents by `new`, or the other way round."""
    found = []
    for name, form in old.items():
        if name not in new:
            found.append(f"{name} is gone")
            continue
        fields, fresh = form.get("properties", {}), new[name].get("properties", {})  # an enum has none
        found += [f"{name}.{field} is gone" for field in fields if field not in fresh]
        found += [f"{name}.{field} has no default" for field in sorted(required(new[name]) - required(form))]
        for field in fields.keys() & fresh.keys():
            if strange := values(fresh[field], new) - values(fields[field], old):
                found.append(f"{name}.{field} may be {sorted(strange)}")
    return found


def present_forms() -> dict[str, Any]:
    found = [
        kind for module in (document, fields, members) for kind in vars(module).values() if isinstance(kind, type)
    ]
    kinds = [kind for kind in dict.fromkeys(found) if issubclass(kind, msgspec.Struct)]
    return msgspec.json.schema_components(kinds)[1]


# No node reads the tree of another one; commands of 0.2 draw gone nodes, which they got from the list of members.
# Nor does a node read what an order has caused on another one, and no former command gives orders here.
KNOWN_COMPLAINTS = {
    "0.1.0": ["TreeRow.standing may be ['gone']"],
    "0.2.0": ["StatementDocument.principal has no default"],
}
KEYS_WITH_DEFAULTS = {"0.1.0": [8, 7], "0.2.0": [8, 8]}  # of [cluster] and [node]


@pytest.mark.slow
@each_release
def test_documents_of_each_release_can_be_read_by_the_other(release: str) -> None:
    old = json.loads(in_release(release, FORMS))
    assert len(old) > 15
    assert complaints(old, present_forms()) == KNOWN_COMPLAINTS[release]


def test_that_comparison_notices_what_would_break() -> None:
    old = json.loads(in_release(OLDEST, FORMS))
    new = json.loads(json.dumps(old))
    del new["JobsDocument"], new["RowDocument"]["properties"]["leader"]
    new["RowDocument"]["required"].remove("leader")
    new["WhyDocument"]["required"].append("ranking")
    new["Place"] = {"enum": ["root", "nowhere"]}
    new["EdgeDocument"]["properties"]["place"] = {"$ref": "#/$defs/Place"}
    new["RowDocument"]["properties"]["standing"] = {"enum": ["live", "asleep"]}
    assert sorted(complaints(old, new)) == [
        "EdgeDocument.place may be ['nowhere']",
        "JobsDocument is gone",
        "RowDocument.leader is gone",
        "RowDocument.standing may be ['asleep']",
        "WhyDocument.ranking has no default",
    ]


# -- configuration --------------------------------------------------------------------------------------------------

CHECK = """
import sys
from subord.cli import main
sys.exit(main(["config", "check", sys.argv[1]]))
"""


def in_toml(shown: str) -> str:
    """A value as `config check` prints it."""
    return shown if shown in {"true", "false"} or shown.replace(".", "").isdigit() else json.dumps(shown)


@pytest.mark.slow
@each_release
def test_a_configuration_of_a_former_release_is_understood(release: str, tmp_path: Path) -> None:
    """With every key that has a default there, and that default."""
    file = tmp_path / "subord.toml"
    file.write_text('[cluster]\nnetwork = "10.0.0.0/24"\nfanout = 8\ninsecure = true\n')
    lines: dict[str, list[str]] = {"cluster": [], "node": []}
    for key, shown in (line.split() for line in in_release(release, CHECK, "", str(file)).splitlines()[1:]):
        section, name = key.split(".")
        if shown != "-":
            lines[section].append(f"{name} = {in_toml(shown)}\n")
    assert [len(each) for each in lines.values()] == KEYS_WITH_DEFAULTS[release]
    file.write_text("".join(f"[{section}]\n{''.join(each)}" for section, each in lines.items()))
    in_release(release, CHECK, "", str(file))
    assert load(str(file)).cluster.fanout == 8


# -- files on disk --------------------------------------------------------------------------------------------------

STORE = """
import sys
import msgspec
from subord.core.events import Neighbourhood
from subord.core.messages import Terms
try:
    from subord.runtime.store import Store
except ImportError:  # of 0.1
    from subord.runtime.state.store import Store
terms, known = (msgspec.json.decode(text, type=kind) for text, kind in zip(sys.argv[2:], (Terms, Neighbourhood)))
store = Store(sys.argv[1], terms, 5)
found = store.load()
print("-" if found is None else msgspec.json.encode(found).decode())
store.save(msgspec.structs.replace(known, incarnation=known.incarnation + 1))
"""


def both_stores(release: str, directory: Path) -> Neighbourhood | None:
    """What the former release reads there; it then writes KNOWN, one incarnation later."""
    told = [msgspec.json.encode(each).decode() for each in (TERMS, KNOWN)]
    said = in_release(release, STORE, "", str(directory), *told).strip()
    return None if said == "-" else msgspec.json.decode(said, type=Neighbourhood)


@each_release
def test_the_neighbourhood_on_disk_survives_an_upgrade_and_the_way_back(release: str, tmp_path: Path) -> None:
    store = Store(str(tmp_path), TERMS, 5)
    store.save(KNOWN)
    assert both_stores(release, tmp_path) == KNOWN
    assert store.load() == msgspec.structs.replace(KNOWN, incarnation=KNOWN.incarnation + 1)


@each_release
def test_fields_that_a_later_release_appends_are_passed_over(release: str, tmp_path: Path) -> None:
    Store(str(tmp_path), TERMS, 5).save(KNOWN)
    file = tmp_path / FILE_NAME
    later = json.loads(file.read_text())
    later["neighbourhood"]["dreams"] = {"of": [1, 2]}
    later["written_by"] = "9.0.0"
    file.write_text(json.dumps(later))
    assert Store(str(tmp_path), TERMS, 5).load() == KNOWN
    assert both_stores(release, tmp_path) == KNOWN


def test_a_file_of_another_format_is_left_alone_until_there_is_something_to_write(tmp_path: Path) -> None:
    """It costs the old place and nothing else; the incarnation is the time anyway."""
    store = Store(str(tmp_path), TERMS, 5)
    store.save(KNOWN)
    file = tmp_path / FILE_NAME
    file.write_text(json.dumps({**json.loads(file.read_text()), "format": 2}))
    assert store.load() is None
    assert json.loads(file.read_text())["format"] == 2
    store.save(msgspec.structs.replace(KNOWN, incarnation=9))
    assert json.loads(file.read_text())["format"] == 1


SIZE = 254
RUNS = [Run(1, 3, Record(5, State.UP)), Run(4, 4, Record(6, State.DOWN, 7, 2))]

MEMBERS = """
import sys, trio
from subord.core.address.network import Network
from subord.core.members.register import Record, Run, State
from subord.core.settings import Settings
from subord.runtime.state.memory import Memory
memory = Memory(sys.argv[1], Settings(network=Network.parse("10.0.0.0/24"), fanout=2))
print(len(memory.membership.register), *memory.membership.register.positions(State.DOWN))
memory.membership.exchange.spread("members", [Run(5, 5, Record(8, State.DOWN))])
memory.change()
assert trio.run(memory.save)
"""


async def test_the_members_on_disk_survive_an_upgrade_and_the_way_back(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """0.1 has no such file. Orders and pinned keys are of no use to 0.2, which drops them."""
    memory = Memory(str(tmp_path), SETTINGS)
    memory.membership.exchange.spread(REGISTER, RUNS)
    memory.membership.exchange.spread(DOCUMENTS, [ORDER])
    memory.membership.exchange.spread(KEYS, [Pin(1, 5, bytes(32))])
    memory.change()
    assert await memory.save()
    assert in_release("0.2.0", MEMBERS, "", str(tmp_path)).split() == ["2", "4"]
    found = Memory(str(tmp_path), SETTINGS).membership
    assert (found.register.positions(State.DOWN), found.register.positions(State.UP)) == ([4, 5], [1, 2, 3])
    assert found.pins is not None
    assert (len(found.documents), len(found.pins)) == (0, 0)
    assert caplog.messages == []


KEYRING = """
import sys
from subord.sealing.keyfile import read_kept, write_kept
kept = read_kept(sys.argv[1])
write_kept(sys.argv[1], kept._replace(ring=kept.ring._replace(revision=kept.ring.revision + 1)))
"""


@each_release
def test_the_keys_on_disk_survive_an_upgrade_and_the_way_back(release: str, tmp_path: Path) -> None:
    ring = keyring_of(key_of(bytes(32)), [key_of(bytes([1] * 32))], revision=3)
    write_kept(str(tmp_path / "keyring"), Kept(ring, "abc"))
    in_release(release, KEYRING, "", str(tmp_path / "keyring"))
    assert read_kept(str(tmp_path / "keyring")) == Kept(ring._replace(revision=4), "abc")


# -- frames of the carrier -----------------------------------------------------------------------------------------

CARRIER = """
import sys
from subord.core.carriage.documents import Document, Documents
from subord.core.members.membership import Membership
from subord.core.members.register import Record, Register, Run, State
membership, now_ms = Membership(Register(254), Documents()), int(sys.argv[1])
exchange = membership.exchange
exchange.opened("edge")
print(*[exchange.received("edge", bytes.fromhex(line), 0.0, now_ms) for line in sys.stdin])
print(membership.register.positions(State.DOWN), len(membership.documents))
exchange.spread("members", [Run(5, 5, Record(8, State.DOWN))])
exchange.spread("documents", [Document("maintain/a", 1, now_ms + 9999, b"\\x90")])
while (data := exchange.next_frame("edge", 0.0)) is not None:
    print(data.hex())
"""


def test_what_travels_along_edges_ends_none_of_them() -> None:
    """0.1 takes none of it; 0.2 has a register of the same form, and documents of another one."""
    now_ms = 1_800_000_000_000
    ours = Membership(Register(SIZE), Documents(), pins=Pins(SIZE))
    ours.exchange.opened("edge")
    ours.exchange.spread(REGISTER, RUNS)
    ours.exchange.spread(DOCUMENTS, [ORDER])
    ours.exchange.spread(KEYS, [Pin(1, 5, bytes(32))])
    ours.exchange.spread(EVENTS, [Event(now_ms, 1, 1, "joined", 4).item])
    frames = list(iter(lambda: ours.exchange.next_frame("edge", 0.0), None))
    assert len(frames) == 5
    told = "".join(f"{each.hex()}\n" for each in frames)
    taken, held, *theirs = in_release("0.2.0", CARRIER, told, str(now_ms)).splitlines()
    assert (taken, held) == ("True True True True True", "[4] 0")
    assert len(theirs) >= 3
    for line in theirs:
        received = ours.exchange.read("edge", bytes.fromhex(line), 0.0, now_ms)
        assert received is not None
        assert ours.to_judge(received) == []
        ours.take("edge", received, [])
    assert ours.register.positions(State.DOWN) == [4, 5]
    assert set(ours.documents.by_name) == {"strict/on"}
    assert ours.exchange.has("edge", DOCUMENTS) is False, "so the key ring goes there as text"
