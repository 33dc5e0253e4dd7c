"""The block of lines in a hosts file (hosts(5)) that holds the table of the cluster.

Inputs are the content of the file and a table; outputs are the new content, and notes. Invariants: outside of the
block each byte stays, but a last line without an end gets one; a name that a line outside has stands in no line of
the block, so nothing that the node knew before changes; equal inputs give equal contents.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from ipaddress import ip_address
from typing import Final, NamedTuple

from subord.services.hosts.table import Entry, Table

BEGIN: Final = b"# BEGIN subord hosts table"
END: Final = b"# END subord hosts table"
_HEAD: Final = BEGIN.decode() + ", version {version}: subord-agent writes these lines; `subord hosts` shows them\n"
NAMED_MAX: Final = 4
LOOPBACK: Final = (
    "a line outside the block gives a name of the table a loopback address, and counts: remove it if a batch system "
    "needs the address of the table"
)


class BlockError(Exception):
    """One sentence without a full stop: what is wrong with the lines of a file, and what to do."""


class Changed(NamedTuple):
    """`content`: of the file. `notes`: what is odd in it but hinders nothing."""

    content: bytes
    notes: tuple[str, ...]


class _Parts(NamedTuple):
    """Of a file, without the lines of the block."""

    before: bytes
    after: bytes


def with_table(content: bytes, table: Table, version: int) -> Changed:
    """The file with the block of a table; without a block if it has no names. Raises BlockError."""
    before, after = _parts(content)
    if not table.entries:
        return Changed(before + after, ())
    if before and not before.endswith(b"\n"):
        before += b"\n"
    others = dict(_names((before + after).split(b"\n")))
    rest = [each for each in table.entries if each.name not in others]
    block = f"{_HEAD.format(version=version)}{''.join(_lines(rest))}{END.decode()}\n".encode("ascii")
    return Changed(before + block + after, tuple(_notes(table, others)))


def _parts(content: bytes) -> _Parts:
    """Raises BlockError."""
    lines = content.split(b"\n")
    begins = [place for place, line in enumerate(lines) if line.startswith(BEGIN)]
    ends = [place for place, line in enumerate(lines) if line.startswith(END)]
    if not begins and not ends:
        return _Parts(content, b"")
    if len(begins) != 1 or len(ends) != 1 or begins[0] > ends[0]:
        found = ", ".join(str(place + 1) for place in sorted(begins + ends)[: 2 * NAMED_MAX])
        raise BlockError(
            f"the lines `{BEGIN.decode()}` and `{END.decode()}` must stand there once each, in this order (see line "
            f"{found}): remove them, and what is not wanted between them"
        )
    before = b"".join(line + b"\n" for line in lines[: begins[0]])
    return _Parts(before, b"\n".join(lines[ends[0] + 1 :]))


def _names(lines: Iterable[bytes]) -> Iterator[tuple[str, str]]:
    """The names of lines in small letters, and their addresses; of a name with several, the last one."""
    for line in lines:
        address, *names = line.partition(b"#")[0].decode("ascii", "replace").split() or [""]
        for name in names:
            yield name.lower(), address


def _lines(entries: Iterable[Entry]) -> Iterator[str]:
    """A line for each address, with the names in the order of the table."""
    names: dict[str, list[str]] = {}
    for each in entries:
        names.setdefault(each.address, []).append(each.name)
    for address, several in names.items():
        yield f"{address}\t{' '.join(several)}\n"


def _notes(table: Table, others: dict[str, str]) -> Iterator[str]:
    """About names with other addresses outside. Those of the node itself are not named: each node has its own."""
    apart = [each.name for each in table.entries if others.get(each.name, each.address) != each.address]
    own = [name for name in apart if _is_loopback(others[name])]
    if own:
        yield LOOPBACK
    rest = [name for name in apart if name not in own]
    if rest:
        more = f" and {len(rest) - NAMED_MAX} more" if len(rest) > NAMED_MAX else ""
        yield f"lines outside the block give {', '.join(rest[:NAMED_MAX])}{more} another address, and count"


def _is_loopback(text: str) -> bool:
    try:
        return ip_address(text).is_loopback
    except ValueError:
        return False
