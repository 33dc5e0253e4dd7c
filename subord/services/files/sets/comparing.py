"""How the directory of a set differs from what was published.

Inputs are the manifest of the version that is in place, and the directory; outputs are paths below it, each with how
it differs. A directory that is missing, or no directory, stands for all that is in it. Nothing is changed, and no
symlink is followed.

All functions block.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Final

from subord.services.files.manifest import DIRECTORY, STAGED, Entry, name_of, parent_of
from subord.services.files.places import Target
from subord.services.files.sets.words import Difference
from subord.services.files.staging import MISSING, OTHER_KIND, Owner, Pause, differs, owner_of

EXTRA: Final = "not of the set"
ITSELF: Final = b"."


def differences(target: Target, entries: Iterable[Entry], own: Owner, pause: Pause) -> Iterator[Difference]:
    """In the order of the entries, the first of which is the directory of the set; then what is not among them.
    `own`: the owner of files without another. Raises FilesError, OSError, and what `pause` raises."""
    absent, names = set[bytes](), defaultdict[bytes, set[bytes]](set)
    top = b""
    for each in entries:
        pause()
        top = top or each.path
        above = parent_of(each.path)
        if each.kind == DIRECTORY:
            names[each.path] |= set()
        if above in absent:
            absent.add(each.path)
            continue
        names[above].add(name_of(each.path))
        how = differs(target.above(each.path), each, owner_of(each, own), pause)
        if how:
            yield Difference(_below(top, each.path), how)
        if how in (MISSING, OTHER_KIND):
            absent.add(each.path)
    for path in [each for each in names if each and each not in absent]:
        pause()
        for name in sorted(set(os.listdir(target.folder(path))) - {*map(os.fsdecode, names[path])}):
            if not os.fsencode(name).startswith(STAGED):
                yield Difference(_below(top, path + b"/" + os.fsencode(name)), EXTRA)


def _below(top: bytes, path: bytes) -> bytes:
    return path[len(top) + 1 :] or ITSELF
