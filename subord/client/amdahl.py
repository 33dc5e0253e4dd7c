"""The best number of nodes for one program: Amdahl's law with communication.

The serial part of the work cannot be shared, and communication between all nodes grows with the cube of their number:

    S(N) = N / (1 - alpha + alpha N + beta gamma N^3),  highest at  N^3 = (1 - alpha) / (2 beta gamma)

Source: the paper, section "Node mapping", and its references there. The paper calls alpha the parallel portion; in
its formula it is the serial one: with alpha = 0 and no communication N nodes are N times as fast, with alpha = 1 no
faster than one.
"""

from __future__ import annotations

from math import cbrt, floor, isfinite
from typing import Final, NamedTuple

NODES_MAX: Final = 10**9


class Program(NamedTuple):
    """`alpha`: serial portion of the work, 0 to 1. `beta`: diameter of the system, the most nodes that a message
    passes through. `gamma`: performance of a node divided by that of a link, in the same unit.
    """

    alpha: float
    beta: float
    gamma: float


def fault_of(program: Program) -> str | None:
    """What is wrong with the numbers, in words; None: nothing."""
    if not 0 <= program.alpha <= 1:
        return f"alpha must be from 0 to 1, not {program.alpha:g}: it is the serial portion of the work"
    for name, value in (("beta", program.beta), ("gamma", program.gamma)):
        if not (isfinite(value) and value >= 0):
            return f"{name} must be 0 or more, not {value:g}"
    return None


def speedup(program: Program, nodes: int) -> float:
    """How many times as fast as one node without communication; `nodes` is 1 or more."""
    alpha, beta, gamma = program
    cube = float(nodes) ** 3
    return nodes / (1 - alpha + alpha * nodes + beta * gamma * cube)


def best_nodes(program: Program) -> int | None:
    """The number of nodes with the highest speedup, the lower of equals; None: it rises up to NODES_MAX.

    The function has one maximum, so one of the two integers around it is the best.
    """
    if program.beta * program.gamma == 0:
        return None
    summit = cbrt((1 - program.alpha) / (2 * program.beta * program.gamma))
    if summit > NODES_MAX:
        return None
    below = max(1, floor(summit))
    return max((below, below + 1), key=lambda nodes: speedup(program, nodes))
