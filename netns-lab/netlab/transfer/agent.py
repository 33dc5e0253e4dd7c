"""The agent of a host in a lab of trees: the real one, on a host whose users can run Python, too.

Python and the source may be where only root can read, so the host also has them at RUNTIME, where the methods of the
transfer queue find them.
"""

from __future__ import annotations

import os
import sys
import sysconfig
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import subord
from netlab.common import linux
from netlab.elastic.host import SHARED
from subord.agent import main as agent

RUNTIME: Final = f"{SHARED}/runtime"
FOLDERS: Final = ("python", "source", "packages")


def main(words: Sequence[str]) -> int:
    """As that of the agent: `--config FILE`, in the directory of the node."""
    for name, place in zip(FOLDERS, _places(), strict=True):
        if not os.path.ismount(f"{RUNTIME}/{name}"):  # it was started before
            linux.show_at(place, f"{RUNTIME}/{name}")
    return agent.main(words)


def make_folders(shared: Path) -> None:
    """`shared`: what hosts have at SHARED."""
    for name in FOLDERS:
        (shared / Path(RUNTIME).relative_to(SHARED) / name).mkdir(parents=True, exist_ok=True)


def python() -> Mapping[str, str]:
    """Of all hosts: the interpreter (`PYTHON`), and the environment with which it finds the source."""
    own = Path(sys.executable).resolve().relative_to(sys.base_prefix)
    return {
        "PYTHON": f"{RUNTIME}/python/{own}",
        "LD_LIBRARY_PATH": f"{RUNTIME}/python/lib",
        "PYTHONPATH": f"{RUNTIME}/source:{RUNTIME}/packages",
        "PYTHONDONTWRITEBYTECODE": "1",
    }


def _places() -> tuple[Path, Path, Path]:
    return Path(sys.base_prefix), Path(subord.__file__).parents[1], Path(sysconfig.get_path("purelib"))
