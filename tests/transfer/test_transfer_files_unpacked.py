"""What commands of the user make of archives, also of those that lead out of the working directory."""

from __future__ import annotations

import io
import os
import pwd
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from subord.services.transfer.data.archive import demand_tame
from subord.services.transfer.data.listing import WRONG, FilesError
from subord.services.transfer.data.user import UserFiles
from tests.transfer.test_transfer_files import USER, Places
from tests.transfer.test_transfer_files_tables import END, link, member

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root may become another user")
SIZE_MAX = 1 << 20


@pytest.fixture
def places() -> Iterator[Places]:
    top = Path(tempfile.mkdtemp(prefix="subord-files-"))
    yield Places(top)
    shutil.rmtree(top)


async def unpacked(archive: bytes, places: Places, *, is_new: bool = False) -> None:
    """As results are, if all is well with the archive. Raises FilesError."""
    users = UserFiles(1)
    into = demand_tame(io.BytesIO(archive), SIZE_MAX, 100)
    with tempfile.TemporaryFile() as file:
        file.write(archive)
        file.flush()
        if is_new:
            await users.unpack(USER, str(places.away / "new"), file, is_new=True)
        else:
            await users.demand_no_links(USER, str(places.work), into)
            await users.unpack(USER, str(places.work), file, is_new=False)


def linked(places: Places, name: str, to: Path) -> Path:
    """A link of the user."""
    made = places.work / name
    made.symlink_to(to)
    os.lchown(made, pwd.getpwnam(USER).pw_uid, -1)
    return made


async def test_results_do_not_follow_a_link_out_of_the_directory(places: Places) -> None:
    """The link may have come with an earlier archive."""
    linked(places, "out", places.away)
    with pytest.raises(FilesError, match="out is a link there") as found:
        await unpacked(member("./out/authorized_keys", b"mine") + END, places)
    assert found.value.cause == WRONG
    assert os.listdir(places.away) == []


async def test_results_do_not_follow_a_link_behind_directories(places: Places) -> None:
    places.write("a/b/file", "")
    linked(places, "a/b/out", places.away)
    archive = member("./free/x") + member("./a/b/out/deep/x", b"mine") + END
    with pytest.raises(FilesError, match="a/b/out is a link there"):
        await unpacked(archive, places)
    assert os.listdir(places.away) == []


async def test_a_file_replaces_a_link_and_does_not_follow_it(places: Places) -> None:
    target = places.away / "target"
    target.write_text("before")
    linked(places, "result", target)
    await unpacked(member("./result", b"new", mode=0o644) + END, places)
    assert (target.read_text(), (places.work / "result").read_text()) == ("before", "new")


async def test_results_come_beside_links_and_into_directories_that_are_there(places: Places) -> None:
    places.write("deep/old", "old")
    linked(places, "out", places.away)
    archive = member("./deep/new", b"new") + member("./fresh/er/x", b"x") + link("./out", str(places.away)) + END
    await unpacked(archive, places)
    assert (places.work / "deep" / "new").read_text() == "new"
    assert (places.work / "fresh" / "er" / "x").read_text() == "x"
    assert (places.work / "out").is_symlink()


@pytest.mark.slow
async def test_many_directories_are_looked_at(places: Places) -> None:
    """In several calls of the command that looks."""
    linked(places, "z", places.away)
    archive = b"".join(member(f"./{each:02}/{'d/' * 800}a") for each in range(90)) + member("./z/a") + END
    with pytest.raises(FilesError, match="z is a link there"):
        await unpacked(archive, places)


@pytest.mark.parametrize("is_new", [True, False])
async def test_tar_itself_follows_no_link_of_an_archive(is_new: bool, places: Places) -> None:
    """Even if such an archive were taken."""
    target = places.away / "target"
    target.mkdir(mode=0o755)
    shutil.chown(target, USER)
    users = UserFiles(1)
    directory = places.away / "new" if is_new else places.work
    with tempfile.TemporaryFile() as file:
        file.write(link("./x", str(target)) + member("./x/a", b"mine") + END)
        file.flush()
        with pytest.raises(FilesError):
            await users.unpack(USER, str(directory), file, is_new=is_new)
    assert os.listdir(target) == []
