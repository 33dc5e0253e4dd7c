"""What a push changes at a node, from its manifest and what is there.

Inputs are entries, and what was found at their paths; output is a plan: where each new entry is staged, and which
staged names are renamed to which final ones. A new directory is staged with all that is in it, and renamed once.
Invariant: every staged name is beside its final one, so a rename is enough; what is there as it should be is in no
step.
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import blake2b
from typing import Final, NamedTuple

from subord.core.carriage.engine.bounds import TAG_BYTES
from subord.services.files.manifest import DIRECTORY, STAGED, Entry, name_of, parent_of, shown

NOTHING: Final = ""
OTHER: Final = "other"
"""What is neither a file, a directory nor a link."""
NAMED_MAX: Final = 5


class Found(NamedTuple):
    """What is at a path now. `kind`: as of entries, NOTHING, OTHER. `same`: content, mode, owners are as wanted."""

    kind: str = NOTHING
    same: bool = False


class Step(NamedTuple):
    """A rename in the directory `folder` below the target."""

    folder: bytes
    staged: bytes
    final: bytes


class Made(NamedTuple):
    """An entry that is made at `path`, which is staged."""

    entry: Entry
    path: bytes


class Plan(NamedTuple):
    """`made`: in order, directories before what is in them. `steps`: in order. `adjusted`: directories that are
    there and get another mode or owner. `replaced`: paths of steps at which something is."""

    made: tuple[Made, ...]
    steps: tuple[Step, ...]
    adjusted: tuple[Entry, ...]
    replaced: tuple[bytes, ...]
    unchanged: int

    @property
    def is_empty(self) -> bool:
        return not self.steps and not self.adjusted


class Conflict(NamedTuple):
    """Another kind of thing is in the way."""

    path: bytes
    wanted: str
    found: str


def plan(entries: tuple[Entry, ...], found: Mapping[bytes, Found], tag: bytes) -> Plan | Conflict:
    """`found`: of all paths; what is missing there is NOTHING. `tag` makes the staged names."""
    staged: dict[bytes, bytes] = {}
    made, steps, adjusted, replaced, unchanged = list[Made](), list[Step](), list[Entry](), list[bytes](), 0
    for each in entries:
        there, above = found.get(each.path, Found()), parent_of(each.path)
        if above in staged:
            staged[each.path] = staged[above] + b"/" + name_of(each.path)
            made.append(Made(each, staged[each.path]))
            continue
        if there.kind == OTHER or (there.kind and (there.kind == DIRECTORY) != (each.kind == DIRECTORY)):
            return Conflict(each.path, each.kind, there.kind)
        if there.same:
            unchanged += 1
        elif there.kind == DIRECTORY:
            adjusted.append(each)
        else:
            name = staged_name(tag, len(steps))
            steps.append(Step(above, name, name_of(each.path)))
            staged[each.path] = above + b"/" + name if above else name
            made.append(Made(each, staged[each.path]))
            if there.kind:
                replaced.append(each.path)
    return Plan(tuple(made), tuple(steps), tuple(adjusted), tuple(replaced), unchanged)


def differing(planned: Plan) -> str:
    """The paths of a plan as a short text: `new d; other a, b`; a directory stands for all that is new in it."""
    finals = [each.folder + b"/" + each.final if each.folder else each.final for each in planned.steps]
    parts = (
        ("new", [each for each in finals if each not in planned.replaced]),
        ("other", list(planned.replaced)),
        ("other mode or owner", [each.path for each in planned.adjusted]),
    )
    return "; ".join(f"{what} {_named(paths)}" for what, paths in parts if paths)


def _named(paths: list[bytes]) -> str:
    named = ", ".join(shown(each) for each in paths[:NAMED_MAX])
    return f"{named} and {len(paths) - NAMED_MAX} more" if len(paths) > NAMED_MAX else named


def staged_name(tag: bytes, number: int) -> bytes:
    """Of a step."""
    return b"%s%s-%d" % (STAGED, tag.hex().encode(), number)


def tag_at(tag: bytes, node: str) -> bytes:
    """Another one for each node, because nodes may share a file system."""
    return blake2b(tag + node.encode(), digest_size=TAG_BYTES).digest()
