"""What `python -m flake8_async` finds, in half of the time, because nothing is mended: `async_lint.py WORD ...`.

flake8 is not around it: its own checks would run, too, and be ignored.
All visitors see the same module, so the places of its nodes, and who is below whom, are found out once, and not for
each visitor. No node is built again on the way, and a visitor passes over what holds nothing that it looks at.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterable
from functools import cache
from typing import Any

import libcst
from flake8_async import main
from libcst.metadata import wrapper as metadata

Parts = list[tuple[str, list[libcst.CSTNode]]]
"""The attributes of a node in the order of a visit, each with the nodes in it."""

_whole_visit, _whole_batch, _Wrapper = libcst.CSTNode.visit, metadata._gen_batchable, libcst.MetadataWrapper
_wrapped: list[libcst.MetadataWrapper] = []  # at most one
_below: dict[int, tuple[Parts, set[str]]] = {}
"""By the identity of each node of its module: also the kinds of it and of all below it."""


class Recorder(libcst.CSTVisitor):
    """Fills `_below`."""

    def __init__(self) -> None:
        super().__init__()
        self._path: list[tuple[Parts, set[str]]] = [([("", [])], set())]

    def on_visit(self, node: libcst.CSTNode) -> bool:
        self._path[-1][0][-1][1].append(node)
        self._path.append(([], {type(node).__name__}))
        return True

    def on_visit_attribute(self, node: libcst.CSTNode, attribute: str) -> None:  # noqa: ARG002
        self._path[-1][0].append((attribute, []))

    def on_leave(self, original_node: libcst.CSTNode) -> None:
        _, kinds = _below[id(original_node)] = self._path.pop()
        self._path[-1][1].update(kinds)


def wrapper(module: libcst.Module, **options: Any) -> libcst.MetadataWrapper:
    """The same one for all visitors of a module."""
    if not _wrapped or _wrapped[0].module is not module:
        _wrapped[:] = [_Wrapper(module, **options)]
        _below.clear()
        _whole_visit(module, Recorder())
    return _wrapped[0]


def batch(module: libcst.MetadataWrapper, providers: Iterable[Any]) -> Any:
    """Without a walk for nobody."""
    return _whole_batch(module, providers) if providers else {}


@cache
def methods(visitor: type) -> frozenset[str]:
    """Those that do something, such as `visit_If`, `leave_If` and `visit_If_test`."""
    named = (each for each in dir(visitor) if each.startswith(("visit_", "leave_")))
    return frozenset(each for each in named if not getattr(getattr(visitor, each), "_is_no_op", False))


@cache
def looked_at(visitor: type) -> frozenset[str]:
    """The kinds of nodes for which it has methods."""
    return frozenset(each.split("_")[1] for each in methods(visitor))


@cache
def moments(visitor: type, kind: str) -> tuple[bool, bool, bool]:
    """Whether it does something as it enters a node of this kind, as it leaves it, and at its attributes."""
    names = methods(visitor)
    at_attributes = any(each.startswith((f"visit_{kind}_", f"leave_{kind}_")) for each in names)
    return f"visit_{kind}" in names, f"leave_{kind}" in names, at_attributes


def visited(node: libcst.CSTNode, visitor: Any) -> Any:
    """In place of CSTNode.visit."""
    if id(node) not in _below or not isinstance(visitor, libcst.CSTTransformer):
        return _whole_visit(node, visitor)
    parts, kinds = _below[id(node)]
    who = type(visitor)
    if looked_at(who).isdisjoint(kinds):
        return node
    enters, leaves, at_attributes = moments(who, type(node).__name__)
    if not enters or visitor.on_visit(node):
        for attribute, nodes in parts:
            if at_attributes:
                visitor.on_visit_attribute(node, attribute)
            for each in nodes:
                visited(each, visitor)
            if at_attributes:
                visitor.on_leave_attribute(node, attribute)
    if leaves:
        visitor.on_leave(node, node)
    return node


if __name__ == "__main__":
    gc.disable()  # there is little garbage
    libcst.MetadataWrapper, libcst.CSTNode.visit = wrapper, visited
    metadata._gen_batchable = batch
    sys.exit(main())
