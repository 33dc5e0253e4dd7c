"""The package, built once as a user builds it, and a clean machine for it."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from clean_machine import INSIDE, Machine, make_root, obstacle, overlaid, release_here

REPOSITORY = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def package() -> Iterator[Path]:
    """The package that `./dev deb` builds from this tree."""
    if shutil.which("dpkg-deb") is None:
        pytest.skip("no `dpkg-deb` here: a Debian package is built on Debian")
    with TemporaryDirectory(prefix="subord-dist-") as folder:
        built = subprocess.run(
            [REPOSITORY / "dev", "deb", folder], capture_output=True, text=True, check=False, timeout=500
        )
        assert built.returncode == 0, built.stderr
        (found,) = Path(folder).glob("subord_*.deb")
        (wheel,) = Path(folder).glob("subord-*.whl")
        assert built.stdout.split() == [str(wheel), str(found)]
        yield found


@pytest.fixture(scope="session")
def base() -> Iterator[Path]:
    """The root of a clean machine, only read: machines boot from copies."""
    reason = obstacle()
    if reason is not None:
        pytest.skip(reason)
    with TemporaryDirectory(prefix="subord-base-") as folder:
        root = Path(folder) / "root"
        make_root(root, INSIDE.split(), release_here())
        yield root


@pytest.fixture(scope="session")
def machine(package: Path, base: Path) -> Iterator[Machine]:
    """Clean and booted, with the address 10.0.0.1 and the package, as /subord.deb and in /root; not installed."""
    with TemporaryDirectory(prefix="subord-machine-") as folder, overlaid(base, Path(folder)) as root:
        shutil.copy(package, root / "subord.deb")
        shutil.copy(package, root / "root")
        booted = Machine(root)
        try:
            booted.run("ip", "address", "add", "10.0.0.1/24", "dev", "lo")
            yield booted
        finally:
            booted.close()
