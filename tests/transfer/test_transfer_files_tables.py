"""Which files cross, and which archives are taken: tables of the pure parts, and what tar makes of an archive."""

from __future__ import annotations

import io
import subprocess
import tarfile
from pathlib import Path
from typing import Any

import pytest

from subord.services.batch.running import Ran
from subord.services.transfer.data.archive import BLOCK, demand_tame
from subord.services.transfer.data.listing import (
    DENIED,
    DISK,
    KIND,
    LARGE,
    OTHER,
    WRONG,
    Entry,
    FilesError,
    demand_sendable,
    entries_in,
    left_out,
    paths_in,
    results,
)
from subord.services.transfer.data.user import UNIT, demand_success

BYTES_MAX, FILES_MAX = 10_000, 5


# -- listing.py -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "paths"),
    [
        pytest.param(None, None, id="all"),
        pytest.param("", (), id="none"),
        pytest.param("a", ("./a",), id="one"),
        pytest.param("a:b/c", ("./a", "./b/c"), id="two"),
        pytest.param(":a::b:", ("./a", "./b"), id="empty ones between"),
        pytest.param("-delete", ("./-delete",), id="as an option"),
        pytest.param("a..b:..c", ("./a..b", "./..c"), id="dots in a name"),
    ],
)
def test_paths_of_a_job(text: str | None, paths: tuple[str, ...] | None) -> None:
    environment = [("HOME", "/"), *([] if text is None else [("SUBORD_FILES", text)])]
    assert paths_in(environment) == paths


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("/etc/passwd", OTHER),
        ("a:../b", OTHER),
        ("a/../b", OTHER),
        ("..", OTHER),
        (":".join("a" * 257), LARGE),
    ],
)
def test_paths_that_are_not_below_the_directory_are_refused(text: str, cause: str) -> None:
    with pytest.raises(FilesError) as found:
        paths_in([("SUBORD_FILES", text)])
    assert found.value.cause == cause


def line(kind: str = "f", mode: str = "644", size: int = 1, path: str = "./a", stamp: str = "7 1.0 2.0") -> bytes:
    """As find prints it."""
    return f"{kind} {mode} {size} {stamp} {path}".encode() + b"\0"


@pytest.mark.parametrize(
    ("printed", "found"),
    [
        pytest.param(b"", {}, id="nothing"),
        pytest.param(line("d", path="."), {}, id="the directory itself"),
        pytest.param(line("d", path="./"), {}, id="the directory itself, as it was named"),
        pytest.param(line(), {b"./a": Entry(b"f", 0o644, 1, b"7 1.0 2.0")}, id="file"),
        pytest.param(line(path="././a//b"), {b"./a/b": Entry(b"f", 0o644, 1, b"7 1.0 2.0")}, id="tidied"),
        pytest.param(line(path="./a b\n d 7 ."), {b"./a b\n d 7 .": Entry(b"f", 0o644, 1, b"7 1.0 2.0")}, id="name"),
        pytest.param(line() + b"f 644 1 7 1.0 2.0 ./cu", {b"./a": Entry(b"f", 0o644, 1, b"7 1.0 2.0")}, id="cut"),
        pytest.param(line(mode="4755"), {b"./a": Entry(b"f", 0o4755, 1, b"7 1.0 2.0")}, id="setuid"),
    ],
)
def test_what_find_prints(printed: bytes, found: dict[bytes, Entry]) -> None:
    assert entries_in(printed) == found


@pytest.mark.parametrize("printed", [b"nonsense\0", b"\0", line(path="/etc/passwd"), line(mode="9"), line(size=-1)])
def test_what_find_never_prints_is_refused(printed: bytes) -> None:
    with pytest.raises(FilesError):
        entries_in(printed)


def entry(kind: str = "f", mode: int = 0o644, size: int = 1, stamp: bytes = b"1") -> Entry:
    return Entry(kind.encode(), mode, size, stamp)


@pytest.mark.parametrize(
    ("entries", "outcome"),
    [
        pytest.param({}, 0, id="nothing"),
        pytest.param({b"./a": entry(), b"./b": entry("d", size=4096), b"./c": entry("l", size=9)}, 1, id="plain"),
        pytest.param({b"./a": entry(size=BYTES_MAX)}, BYTES_MAX, id="just as large"),
        pytest.param({b"./a": entry(size=BYTES_MAX), b"./b": entry()}, LARGE, id="too large"),
        pytest.param({b"./%d" % each: entry(size=0) for each in range(FILES_MAX + 1)}, LARGE, id="too many"),
        pytest.param({b"./a": entry("p")}, KIND, id="pipe"),
        pytest.param({b"./a": entry("s")}, KIND, id="socket"),
        pytest.param({b"./a": entry("b")}, KIND, id="device"),
        pytest.param({b"./a": entry(mode=0o4755)}, KIND, id="setuid"),
        pytest.param({b"./a": entry(mode=0o2755)}, KIND, id="setgid"),
        pytest.param({b"./a": entry("d", mode=0o2755)}, 0, id="directory of a group"),
    ],
)
def test_what_may_cross(entries: dict[bytes, Entry], outcome: int | str) -> None:
    if isinstance(outcome, int):
        assert demand_sendable(entries, BYTES_MAX, FILES_MAX) == outcome
        return
    with pytest.raises(FilesError) as found:
        demand_sendable(entries, BYTES_MAX, FILES_MAX)
    assert found.value.cause == outcome


@pytest.mark.parametrize(
    ("before", "now", "comes", "stays"),
    [
        pytest.param(None, entry(), True, False, id="new file"),
        pytest.param(entry(), entry(), False, False, id="same file"),
        pytest.param(entry(), entry(stamp=b"2"), True, False, id="changed file"),
        pytest.param(entry(), entry(mode=0o755), True, False, id="other mode"),
        pytest.param(entry("d"), entry("d", stamp=b"2"), False, False, id="directory with other files"),
        pytest.param(entry("d"), entry("l"), True, False, id="link in place of a directory"),
        pytest.param(None, entry("p"), False, True, id="pipe"),
        pytest.param(entry(), entry(mode=0o4755), False, True, id="setuid since"),
        pytest.param(entry("p"), entry("p"), False, False, id="the same pipe"),
    ],
)
def test_what_is_a_result(before: Entry | None, now: Entry, comes: bool, stays: bool) -> None:
    then = {} if before is None else {b"./a": before}
    assert (bool(results(then, {b"./a": now})), left_out(then, {b"./a": now})) == (comes, int(stays))


# -- archive.py -----------------------------------------------------------------------------------------------------


def member(path: str, content: bytes = b"", *, form: int = tarfile.PAX_FORMAT, **changed: Any) -> bytes:
    """The header of a member, and its content."""
    info = tarfile.TarInfo(path)
    info.size = len(content)
    for name, value in changed.items():
        setattr(info, name, value)
    return info.tobuf(form) + content + b"\0" * (-len(content) % BLOCK)


def patched(header: bytes, at: int, data: bytes) -> bytes:
    """With other bytes at a place, and the checksum that follows from them."""
    changed = bytearray(header)
    changed[at : at + len(data)] = data
    changed[148:156] = b" " * 8
    changed[148:156] = b"%06o\0 " % sum(changed[:BLOCK])
    return bytes(changed)


def header_of(*lines: bytes, path: str = "./x") -> bytes:
    """The header before a member, with such lines, and an empty file."""
    body = b"".join(lines)
    return member("head", body, type=tarfile.XHDTYPE, form=tarfile.USTAR_FORMAT) + member(path)


def said(name: bytes, value: bytes) -> bytes:
    """One line of it."""
    size = len(name) + len(value) + 3
    length = size + len(str(size + len(str(size))))
    return b"%d %s=%s\n" % (length, name, value)


def link(path: str, to: str) -> bytes:
    return member(path, type=tarfile.SYMTYPE, linkname=to)


FOLDER = member("./d", type=tarfile.DIRTYPE, mode=0o755)
END = b"\0" * BLOCK * 2
TAKEN = {
    "file": member("./a", b"seven"),
    "directory": FOLDER + member("./d/a", b"x"),
    "link": link("./a", "/etc/passwd"),
    "long name": member("./" + "n" * 300, b"x"),
    "name that is no text": member("./\udcff"),
    "as many as may": b"".join(member(f"./{each}") for each in range(FILES_MAX)),
    "as large as may": member("./a", b"x" * BYTES_MAX),
    "of a group": member("./d", type=tarfile.DIRTYPE, mode=0o2755),
}
REFUSED = {
    "absolute": (member("/etc/passwd"), WRONG),
    "absolute in a header": (header_of(said(b"path", b"/etc/passwd")), WRONG),
    "above": (member("./../a"), WRONG),
    "above in the middle": (member("./a/../../b"), WRONG),
    "above in a header": (header_of(said(b"path", b"../a")), WRONG),
    "above before a zero byte": (patched(member("./a"), 0, b"..\0b"), WRONG),
    "zero byte in a header": (header_of(said(b"path", b"..\0b")), WRONG),
    "no name": (patched(member("./a"), 0, b"\0\0\0"), WRONG),
    "nothing but dots": (member("./."), WRONG),
    "prefix that tar does not read": (patched(member("./a", form=tarfile.GNU_FORMAT), 345, b"b"), WRONG),
    "hard link": (member("./a", type=tarfile.LNKTYPE, linkname="/etc/shadow"), WRONG),
    "character device": (member("./a", type=tarfile.CHRTYPE), WRONG),
    "block device": (member("./a", type=tarfile.BLKTYPE), WRONG),
    "pipe": (member("./a", type=tarfile.FIFOTYPE), WRONG),
    "file in one piece": (member("./a", type=tarfile.CONTTYPE), WRONG),
    "setuid": (member("./a", mode=0o4755), WRONG),
    "setgid": (member("./a", mode=0o2755), WRONG),
    "sparse": (member("./a", type=tarfile.GNUTYPE_SPARSE, form=tarfile.GNU_FORMAT), WRONG),
    "sparse in a header": (header_of(said(b"GNU.sparse.major", b"1")), WRONG),
    "header for all": (member("g", said(b"path", b"a"), type=tarfile.XGLTYPE), WRONG),
    "long name of another form": (member("./" + "n" * 300, form=tarfile.GNU_FORMAT), WRONG),
    "link with content": (member("./a", b"x", type=tarfile.SYMTYPE), WRONG),
    "directory with content": (member("./a", b"x", type=tarfile.DIRTYPE), WRONG),
    "file with the name of a directory": (patched(member("./a"), 0, b"./a/"), WRONG),
    "through a link of its own": (link("./x", "/tmp") + member("./x/a"), WRONG),
    "through a link that follows": (member("./x/a/b") + link("./x", "/tmp"), WRONG),
    "too many": (b"".join(member(f"./{each}") for each in range(FILES_MAX + 1)), LARGE),
    "path that is too long": (member("./" + "d/" * 2100 + "a"), WRONG),
    "too large": (member("./a", b"x" * (BYTES_MAX + 1)), LARGE),
    "too large together": (member("./a", b"x" * BYTES_MAX) + member("./b", b"x"), LARGE),
    "huge": (patched(member("./a"), 124, b"77777777777\0"), LARGE),
    "huge in a header": (header_of(said(b"size", b"9" * 18)), LARGE),
    "beyond any size": (header_of(said(b"size", b"9" * 30)), WRONG),
    "size less than nothing": (patched(member("./a"), 124, b"-0000001000\0"), WRONG),
    "size with a sign": (patched(member("./a"), 124, b"+0000000000\0"), WRONG),
    "size as in a program": (patched(member("./a"), 124, b"0o000000000\0"), WRONG),
    "size with a line": (patched(member("./a"), 124, b"0_000000000\0"), WRONG),
    "size in binary": (patched(member("./a"), 124, b"\x80" + b"\0" * 11), WRONG),
    "mode that is none": (patched(member("./a"), 100, b"rwxr-xr\0"), WRONG),
    "two headers": (header_of(said(b"path", b"b"))[: 2 * BLOCK] + header_of(said(b"path", b"c")), WRONG),
    "header of nothing": (header_of(said(b"path", b"b"))[: 2 * BLOCK], WRONG),
    "header that is long": (member("h", b"x" * 70_000, type=tarfile.XHDTYPE), WRONG),
    "line without a length": (header_of(b"x path=a\n"), WRONG),
    "line that is longer than all": (header_of(b"99 path=a\n"), WRONG),
    "line without an end": (header_of(b"9 path=abc"), WRONG),
    "line without a value": (header_of(b"7 path\n"), WRONG),
    "line of nothing": (header_of(b"0 =\n"), WRONG),
    "no archive": (b"x" * BLOCK, WRONG),
    "half a header": (member("./a")[:100], WRONG),
    "member behind the end": (END + member("./a"), WRONG),
}


@pytest.mark.parametrize("name", TAKEN)
def test_an_archive_that_is_taken(name: str) -> None:
    demand_tame(io.BytesIO(TAKEN[name] + END), BYTES_MAX, FILES_MAX)


@pytest.mark.parametrize("name", REFUSED)
def test_an_archive_that_is_refused(name: str) -> None:
    content, cause = REFUSED[name]
    with pytest.raises(FilesError) as found:
        demand_tame(io.BytesIO(content + END), BYTES_MAX, FILES_MAX)
    assert found.value.cause == cause


def test_directories_that_take_too_much_memory_are_refused() -> None:
    content = b"".join(member(f"./{each}/{'d/' * 2000}a") for each in range(40))
    with pytest.raises(FilesError) as found:
        demand_tame(io.BytesIO(content + END), BYTES_MAX, 40)
    assert found.value.cause == LARGE


@pytest.mark.parametrize("left", [0, 100, BLOCK, 2 * BLOCK, 3 * BLOCK])
def test_an_archive_that_is_cut_is_refused(left: int) -> None:
    content = member("./a", b"x" * 600) + member("./b")
    with pytest.raises(FilesError):
        demand_tame(io.BytesIO(content[:left]), BYTES_MAX, FILES_MAX)


def test_directories_into_which_an_archive_is_unpacked() -> None:
    content = FOLDER + member("./d/e/f/a") + member("b/c") + member("./top") + link("./d/l", "e")
    found = demand_tame(io.BytesIO(content + END), BYTES_MAX, FILES_MAX)
    assert found == {b"./d", b"./d/e", b"./d/e/f", b"./b"}


def test_what_tar_makes_is_taken(tmp_path: Path) -> None:
    """Of the directory that users have: names, links and times as they come."""
    work = tmp_path / "work"
    (work / "deep" / "er").mkdir(parents=True)
    for name in ("a", "deep/er/ä b\n", "n" * 200, "deep/.hidden"):
        (work / name).write_text("seven")
    (work / "link").symlink_to("/etc")
    (work / "hard").hardlink_to(work / "a")
    names = b"".join(b"./" + bytes(each.relative_to(work)) + b"\0" for each in sorted(work.rglob("*")))
    options = ["--format=posix", "--hard-dereference", "--no-recursion", "--null", "--files-from=-"]
    made = subprocess.run(
        ["tar", "--create", "--file=-", f"--directory={work}", *options],
        input=names,
        stdout=subprocess.PIPE,
        check=True,
        timeout=60,
    )
    assert demand_tame(io.BytesIO(made.stdout), BYTES_MAX, 20) == {b"./deep", b"./deep/er"}


@pytest.mark.parametrize(
    ("errors", "cause", "end"),
    [
        ("tar: out: Cannot mkdir: Read-only file system", DENIED, f"Read-only file system: {UNIT}"),
        ("tar: out: Cannot mkdir: Permission denied", DENIED, "Permission denied"),
        ("tar: out: Wrote only 512 of 10240 bytes", DISK, "Wrote only 512 of 10240 bytes"),
        ("tar: out: is odd", OTHER, "tar has ended with 2: tar: out: is odd"),
    ],
)
def test_what_tar_says_has_a_cause(errors: str, cause: str, end: str) -> None:
    """A unit of systemd makes a directory read-only that its user may write."""
    with pytest.raises(FilesError) as told:
        demand_success(Ran(2, b"", errors), "tar")
    assert told.value.cause == cause
    assert str(told.value).endswith(end)
