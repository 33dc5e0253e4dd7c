"""The agents of many nodes in one process, each with the node of the simulator in place of cgroups and loads.

Inputs are what the daemons say on the sockets of their agents (runtime/shares/talk.py), and requests of the caller;
outputs are measurements for the daemons, and what each node has served. A node serves a request in 15 ms of real
time, each of a class drawn by its tickets. Nothing is verified: what is measured is the daemons.
"""

from __future__ import annotations

import random
import selectors
import socket
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from math import inf
from pathlib import Path
from typing import Any, Final

from netlab.common import helper
from netlab.common.json_lines import Lines, Message
from netlab.lab import Lab
from subord.core.carriage.shares import plan as plans
from subord.core.carriage.shares.bodies import thousandths
from subord.core.carriage.shares.bounds import THOUSANDTHS
from subord.core.carriage.shares.plan import Plan
from subord.runtime.frames import LENGTH_BYTES, frame
from subord.runtime.orders.agent import Done, decode_handed, encode
from subord.runtime.shares.talk import Ask, Give, Said, decode_asked, encode_talk
from subord.services.shares.simulation.actors import PERIOD_S, REQUESTS, Node
from subord.services.shares.simulation.serving import lottery

BACKLOG: Final = 16
READ_BYTES: Final = 65536
GONE: Final = "The process that plays agents has ended."
Loads = Mapping[int, Sequence[bool]]
"""Which classes have work, by position. Work never ends."""


class PlayedNode:
    """One node: its work, and what its daemon has asked for."""

    def __init__(self, classes: Sequence[str], seed: int) -> None:
        self._classes = tuple(classes)
        self._equal = [100.0 / len(classes)] * len(classes)
        self._node = Node([0.0] * len(classes), self._equal, lottery(random.Random(seed)))
        self._began = time.monotonic()
        self._served_at = 0
        self._plan: Plan | None = None
        self.lies = False
        self.row = self._equal
        """In percent."""
        self.asked = self.given = 0

    @property
    def _now(self) -> int:
        """In requests."""
        return int((time.monotonic() - self._began) / PERIOD_S * REQUESTS)

    def _advance(self) -> int:
        """Serve until now, in periods: the chances of many requests at once are too long a list."""
        now = self._now
        for step in range(self._served_at + REQUESTS, now, REQUESTS):
            self._node.advance(step)
        self._node.advance(now)
        self._served_at = now
        return now

    def load(self, has_work: Sequence[bool]) -> None:
        self._advance()
        self._node.load([inf if each else 0.0 for each in has_work])

    def served(self) -> list[float]:
        """Of each class, since the start."""
        self._advance()
        return self._node.served

    def begin(self, plan: Plan | None) -> bytes:
        """What is answered to a document."""
        self._plan = None
        if plan is None or not set(plan.classes) <= set(self._classes):
            return encode(Done("failed"))
        if plan.is_off:
            self.row = self._equal
            self._node.obey(self.row, self._advance())
            return encode(Done())
        self._plan = plan
        return b""

    def heard(self, data: bytes) -> bytes:
        """What is answered to a frame."""
        said = decode_asked(data)
        if self._plan is None or said is None:
            return encode(Done("malformed"))
        if isinstance(said, Give):
            self._give(self._plan, said.row)
            return b""
        assert isinstance(said, Ask)
        self.asked += 1
        return frame(encode_talk(self._measured(self._plan)))

    def _give(self, plan: Plan, row: Sequence[int]) -> None:
        self.given += 1
        of_class = dict(zip(plan.classes, row, strict=True))
        self.row = [of_class.get(name, 0) / 1000 for name in self._classes]
        self._node.obey(self.row, self._advance())

    def _measured(self, plan: Plan) -> Said:
        if self.lies:
            much = (THOUSANDTHS,) * len(plan.classes)
            return Said(much, much, (True,) * len(plan.classes))
        self._advance()
        report = self._node.report()
        if report is None or not self.given:
            return Said()
        places = [self._classes.index(name) for name in plan.classes]
        return Said(
            tuple(thousandths([report.allocation[each] for each in places])),
            tuple(int(report.usage[each] * 1000) for each in places),
            tuple(bool(report.needy[each]) for each in places),
        )


class _Connection:
    """Of the daemon of a node."""

    def __init__(self, stream: socket.socket, node: PlayedNode) -> None:
        self.stream = stream
        self._node = node
        self._buffer = bytearray()
        self._has_begun = False

    def receive(self) -> bool:
        """Whether it goes on."""
        with suppress(OSError):
            if chunk := self.stream.recv(READ_BYTES):
                self._buffer += chunk
                for each in iter(self._next, None):
                    if answer := self._answer(each):
                        self.stream.sendall(answer)
                return True
        self.stream.close()
        return False

    def _next(self) -> bytes | None:
        size = int.from_bytes(self._buffer[:LENGTH_BYTES], "big")
        end = LENGTH_BYTES + size
        if len(self._buffer) < max(LENGTH_BYTES, end):
            return None
        found = bytes(self._buffer[LENGTH_BYTES:end])
        del self._buffer[:end]
        return found

    def _answer(self, data: bytes) -> bytes:
        if self._has_begun:
            return self._node.heard(data)
        self._has_begun = True
        handed = decode_handed(data)
        return self._node.begin(None if handed is None else plans.read(handed.document.order))


class _Players:
    """All nodes, and their sockets."""

    def __init__(self, sockets: Mapping[int, Path], classes: Sequence[str]) -> None:
        self._nodes = {position: PlayedNode(classes, position) for position in sockets}
        self._selector = selectors.DefaultSelector()
        for position, path in sockets.items():
            listener = socket.socket(socket.AF_UNIX)
            path.unlink(missing_ok=True)
            listener.bind(str(path))
            listener.listen(BACKLOG)
            self._selector.register(listener, selectors.EVENT_READ, self._nodes[position])

    def serve(self, caller: Lines) -> None:
        """Until the caller ends."""
        self._selector.register(caller, selectors.EVENT_READ, caller)
        while not caller.ended:
            for key, _ in self._selector.select():
                if key.data is caller:
                    for request in caller.receive():
                        caller.send(getattr(self, f"_do_{request.pop('do')}")(**request))
                elif isinstance(key.data, PlayedNode):
                    stream, _ = key.fileobj.accept()  # type: ignore[union-attr]  # a listener
                    self._selector.register(stream, selectors.EVENT_READ, _Connection(stream, key.data))
                elif not key.data.receive():
                    self._selector.unregister(key.fileobj)

    def _do_load(self, loads: Mapping[str, Sequence[bool]]) -> Message:
        for position, has_work in loads.items():
            self._nodes[int(position)].load(has_work)
        return {}

    def _do_served(self) -> Message:
        return {str(position): each.served() for position, each in self._nodes.items()}

    def _do_lie(self, position: int, lies: bool) -> Message:
        self._nodes[position].lies = lies
        return {}

    def _do_rows(self) -> Message:
        return {str(position): each.row for position, each in self._nodes.items()}

    def _do_counts(self) -> Message:
        return {str(position): [each.asked, each.given] for position, each in self._nodes.items()}


class StandIns:
    """The agents of some nodes of a lab. Use it as a context, before the daemons are started."""

    def __init__(self, lab: Lab, positions: Iterable[int]) -> None:
        sockets = {position: lab.directory.agent_socket(position) for position in positions}
        classes = lab.options.classes
        self._lines = helper.fork("stand-ins", lambda: _Players(sockets, classes), _Players.serve)
        helper.await_ready(self._lines, "Agents cannot be played: {}.")

    def __enter__(self) -> StandIns:
        return self

    def __exit__(self, *_: object) -> None:
        self._lines.close()

    def load(self, loads: Loads) -> None:
        """Which classes have work from now on, by position."""
        self._ask("load", loads={str(position): list(each) for position, each in loads.items()})

    def served(self) -> dict[int, list[float]]:
        """How many requests of each class each node has served so far."""
        return {int(position): each for position, each in self._ask("served").items()}

    def lie(self, position: int, *, lies: bool = True) -> None:
        """The node reports more than is possible."""
        self._ask("lie", position=position, lies=lies)

    def rows(self) -> dict[int, list[float]]:
        """What each node gives to each class, in percent."""
        return {int(position): each for position, each in self._ask("rows").items()}

    def counts(self) -> dict[int, list[int]]:
        """How often each node was asked, and given a row."""
        return {int(position): each for position, each in self._ask("counts").items()}

    def _ask(self, do: str, **about: Any) -> Message:
        return helper.ask(self._lines, {"do": do, **about}, GONE)
