"""A virtual environment with subord and its dependencies, built here for its place in the package.

It is made below a scratch directory; every file that names that directory is rewritten or removed.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import tomllib
from importlib import metadata
from pathlib import Path

PYTHON = "/usr/bin/python3"
"""Debian's own Python, which is on every node; the search path is not used."""
PLACE = "usr/lib/subord"
"""The place of the environment on a node, below /."""
LAUNCHER = f"""#!/{PLACE}/bin/python3 -I
import sys

from MODULE import main

sys.exit(main())
"""
"""-I: PYTHONPATH, which environment modules set on clusters, must not affect the daemon."""
LAUNCHERS = {"subord": "subord.cli", "subord-agent": "subord.agent.main"}
"""The programs, and the modules with their `main`."""


class BuildError(Exception):
    """The package cannot be built. One sentence for the user."""


def wheel(repository: Path, scratch: Path) -> Path:
    """subord itself as a wheel in `scratch`. Raises BuildError."""
    wanted = scratch / "wheel"
    _pip(scratch, "wheel", "--no-deps", "--wheel-dir", str(wanted), str(repository), repository=repository)
    (found,) = wanted.glob("subord-*.whl")
    return found


def fill(tree: Path, repository: Path, scratch: Path, made: Path) -> None:
    """The whole environment below `tree`, with the wheel `made`. Raises BuildError."""
    home = tree / PLACE
    run(PYTHON, "-m", "venv", "--without-pip", "--symlinks", str(home))
    python = home / "bin" / "python3"
    install = ("--python", str(python), "install", "--no-compile", "--only-binary", ":all:")
    project = tomllib.loads((repository / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    _pip(scratch, *install, *project["dependencies"], repository=repository)
    # By name, so that the environment has no path of the wheel; without an index, so that it is this wheel.
    own_wheel = ("--no-deps", "--no-index", "--find-links", str(made.parent), "subord")
    _pip(scratch, *install, *own_wheel, repository=repository)
    _remove_build_paths(home)


def _remove_build_paths(home: Path) -> None:
    """Remove what names the place of building: other programs, `activate`, and lines of pyvenv.cfg."""
    for path in (home / "bin").iterdir():
        if path.name not in ("python", "python3"):
            path.unlink()
    for name, module in LAUNCHERS.items():
        launcher = home / "bin" / name
        launcher.write_text(LAUNCHER.replace("MODULE", module), encoding="utf-8")
        launcher.chmod(0o755)
    for name in ("include", "lib64"):
        path = home / name
        if path.is_symlink():
            path.unlink()
        elif path.is_dir():
            shutil.rmtree(path)
    for record in home.glob("lib/python3*/site-packages/*.dist-info/RECORD"):
        lines = record.read_text(encoding="utf-8").splitlines(keepends=True)
        record.write_text("".join(line for line in lines if not line.startswith("../../../bin/")), encoding="utf-8")
    config = home / "pyvenv.cfg"
    kept = [line for line in config.read_text(encoding="utf-8").splitlines() if not line.startswith("command")]
    config.write_text("\n".join(kept) + "\n", encoding="utf-8")


def compile_all(tree: Path) -> None:
    """Byte code for every module, in files that only root may write. The times of the sources must be final."""
    how = ("--invalidation-mode", "timestamp", "-s", str(tree), "-p", "/", "-q")
    run(PYTHON, "-m", "compileall", *how, str(tree / PLACE / "lib"))


def versions(tree: Path) -> list[tuple[str, str, str]]:
    """(name, version, licence) of each distribution in the environment, subord included, in order of the names."""
    library = f"python{sysconfig.get_python_version()}/site-packages"
    found = []
    for each in metadata.distributions(path=[str(tree / PLACE / "lib" / library)]):
        about = each.metadata
        lines = [line for line in about.get_all("Classifier", []) if line.startswith("License")]
        classes = ", ".join(line.rpartition(" :: ")[2] for line in lines)
        licence = about.get("License-Expression") or classes or about.get("License") or "see its files"
        found.append((about["Name"], about["Version"], licence))
    return sorted(found, key=lambda each: each[0].lower())


def run(*words: str) -> None:
    """Run a command. Raises BuildError with its output if it fails."""
    ran = subprocess.run(words, env=clean(), capture_output=True, text=True, check=False)
    if ran.returncode != 0:
        raise BuildError(f"`{' '.join(words[:4])} ...` failed:\n{(ran.stderr or ran.stdout).strip()}")


def clean() -> dict[str, str]:
    """The environment variables without those that would mislead Python or pip."""
    misleading = ("PYTHON", "PIP_TARGET", "PIP_PREFIX", "PIP_USER", "PIP_ROOT", "VIRTUAL_ENV")
    return {name: value for name, value in os.environ.items() if not name.startswith(misleading)}


def _pip(scratch: Path, *words: str, repository: Path) -> None:
    """pip in its own environment: the one in the package has none."""
    home = scratch / "pip"
    if not home.exists():
        run(PYTHON, "-m", "venv", str(home))
    os.environ["PIP_CONSTRAINT"] = (repository / "constraints.txt").as_uri()  # also for the dependencies of the build
    try:
        run(str(home / "bin" / "python"), "-m", "pip", "--disable-pip-version-check", *words)
    except BuildError as error:
        raise BuildError(f"{error}\nBuilding needs a Python package index: is one reachable?") from None


def check() -> None:
    """Raises BuildError if this machine cannot build the package."""
    if sys.platform != "linux" or not Path(PYTHON).exists():
        raise BuildError(f"there is no {PYTHON}: a Debian package is built on Debian (apt-get install python3)")
    if Path(sys.executable).resolve() != Path(PYTHON).resolve():
        raise BuildError(f"this must run under {PYTHON}, not {sys.executable}: use ./dev deb")
    if shutil.which("dpkg-deb") is None:
        raise BuildError("there is no `dpkg-deb`: a Debian package is built on Debian (apt-get install dpkg)")
    try:
        import ensurepip  # noqa: F401
        import venv  # noqa: F401
    except ImportError:
        raise BuildError(f"{PYTHON} cannot make virtual environments: apt-get install python3-venv") from None
