"""What an operator does with shares in a lab, and what the nodes say of them."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Collection, Iterable, Sequence
from typing import Any, Final

from netlab.common.waiting import wait_until
from netlab.errors import LabError
from netlab.lab import Lab
from netlab.services.console import SUBORD

CLASSES: Final = ("web", "batch", "rest")
WANTED: Final = (60.0, 30.0, 10.0)
"""As in the paper."""
COMMAND_S_MAX: Final = 60.0
FOLLOWED_S_MAX: Final = 60.0
BUDGET_S: Final = 2.0
LOOK_S: Final = 0.1
OBEYS: Final = "obeys"


def order(lab: Lab, *words: str, at: int | None = None) -> None:
    """`subord shares ...`, signed by the operator of the lab. `at` None: the root. Raises LabError."""
    position = root_of(lab) if at is None else at
    done = subprocess.run(
        [SUBORD, "shares", *words, "--socket", str(lab.control_socket(position))],
        env=lab.environment,
        capture_output=True,
        text=True,
        timeout=COMMAND_S_MAX,
        check=False,
    )
    if done.returncode:
        raise LabError(f"`subord shares {' '.join(words)}`: {(done.stderr or done.stdout).strip()}")


def publish(lab: Lab, round_s: float, wanted: Sequence[float] = WANTED) -> float:
    """The wanted shares from now on; seconds until all nodes obey. Raises LabError."""
    began = time.monotonic()
    words = ",".join(f"{name}={share:g}" for name, share in zip(CLASSES, wanted, strict=True))
    order(lab, "set", words, "--round", f"{round_s:g}s")
    await_word(lab, OBEYS)
    return time.monotonic() - began


def switch_off(lab: Lab) -> None:
    order(lab, "off")


def states(lab: Lab, positions: Iterable[int] | None = None, at: int | None = None) -> dict[str, list[str]]:
    """How nodes follow the document: word -> addresses. `positions` None: all that live. Raises LabError."""
    asked = "" if positions is None else f"&nodes={','.join(map(str, sorted(positions)))}"
    found = document(lab, root_of(lab) if at is None else at, asked)
    words: dict[str, list[str]] = {}
    for each in found["states"]:
        words.setdefault(each["state"], []).extend(each["addresses"])
    return words


def document(lab: Lab, position: int, asked: str = "") -> dict[str, Any]:
    """What a node answers. Raises LabError."""
    return lab.document(position, f"/v1/shares?budget={BUDGET_S:g}{asked}")


def await_word(lab: Lab, word: str, positions: Collection[int] | None = None) -> None:
    """All these nodes, or all that live, have come to this state. Raises LabError."""
    count = len(lab.look().live()) if positions is None else len(positions)
    words: dict[str, list[str]] = {}

    def have_come() -> bool:
        nonlocal words
        words = states(lab, positions)
        return set(words) == {word} and len(words[word]) == count

    if not wait_until(have_come, FOLLOWED_S_MAX, LOOK_S):
        told = ", ".join(f"{each} {len(nodes)}" for each, nodes in words.items())
        raise LabError(f"{count} nodes should say `{word}` after {FOLLOWED_S_MAX:g} s; they say: {told}.")


def told_of(lab: Lab, root: int) -> tuple[int, int]:
    """How many nodes are in the decisions of a root, and how many it knows; zeros: it has told nothing."""
    try:
        tree = document(lab, root, f"&nodes={root}")["tree"]
    except LabError:
        return 0, 0
    return (0, 0) if tree is None else (tree["told"], tree["asked"])


def root_of(lab: Lab) -> int:
    """The one with the lowest position. Raises LabError."""
    roots = [lab.position(root.address) for root in lab.look().roots()]
    if not roots:
        raise LabError("The lab has no root now.")
    return min(roots)
