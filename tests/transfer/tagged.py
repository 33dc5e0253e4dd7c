"""Jobs of two trees that write down under a tag of theirs that they have begun."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "netns-lab"))
from netlab.elastic.hosted import USER
from netlab.transfer.loads import RUNS, outside
from netlab.transfer.pair import Pair
from netlab.transfer.trees import TreeLab


def prepare(tree: TreeLab) -> None:
    """Before the first such job."""
    tree.run_on_head("mkdir", "-p", RUNS, user=USER)


def script(tag: str, then: str) -> str:
    return f"echo begins >>{RUNS}/{tag}; {then}"


def starts(pair: Pair, tag: str) -> list[str]:
    """The trees where it has begun."""
    found = []
    for each in pair.trees:
        file = outside(each, f"{RUNS}/{tag}")
        found += [each.name] * (file.read_text().split().count("begins") if file.exists() else 0)
    return found
