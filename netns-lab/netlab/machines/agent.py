"""The agent of the queue's node of a lab of machines: the real one, but in a lab without Grid Engine its batch system
is the lab's own."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from netlab.machines.batch import take_the_place
from netlab.machines.cluster import BATCH, lab_of
from subord.agent import main as agent


def main(words: Sequence[str]) -> int:
    """As that of the agent: `--config FILE`, in the directory of the node."""
    path = lab_of(Path(words[words.index("--config") + 1]).parent) / BATCH
    if path.exists():
        take_the_place(path)
    return agent.main(words)
