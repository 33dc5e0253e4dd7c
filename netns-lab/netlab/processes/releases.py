"""The previous release beside the present one: where its code is, and how a process comes to import it."""

from __future__ import annotations

import importlib
import sys
import zipfile
from pathlib import Path
from typing import Literal

from netlab.errors import LabError

Release = Literal["present", "previous"]
PRESENT: Release = "present"
PREVIOUS: Release = "previous"


def check(path: Path) -> None:
    """A wheel of subord, or a directory in which the package is. Raises LabError."""
    if path.is_dir() and (path / "subord" / "__init__.py").is_file():
        return
    if path.is_file() and zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as wheel:
            if "subord/__init__.py" in wheel.namelist():
                return
    raise LabError(
        f"{path} is neither a wheel of subord nor a directory with the package in it. Nothing was started."
    )


def tree_of(path: Path, directory: Path) -> Path:
    """Where the package is, or will be when it is unpacked below `directory`."""
    return path if path.is_dir() else directory / PREVIOUS


def unpack(path: Path, directory: Path) -> Path:
    tree = tree_of(path, directory)
    if tree != path:
        with zipfile.ZipFile(path) as wheel:
            wheel.extractall(tree)
    return tree


def enter(tree: Path) -> None:
    """From now on `import subord` means the one below `tree`. Modules imported before stay in use."""
    sys.path.insert(0, str(tree))
    for name in [each for each in sys.modules if each.partition(".")[0] == "subord"]:
        del sys.modules[name]
    importlib.invalidate_caches()
    found = importlib.import_module("subord").__file__
    if found is None or not Path(found).is_relative_to(tree):
        raise LabError(f"`import subord` finds {found} and not what is below {tree}.")
