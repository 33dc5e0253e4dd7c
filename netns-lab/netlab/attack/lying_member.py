"""A lab daemon with the key of the cluster that lies on command, for tests/lab/test_lab_liars.py.

`netlab.lab.Lab(daemon=THIS FILE)` runs it on each node. It is the real daemon. The file `lie` in the node's
directory, read again on each change, selects the lie:

    age        H1  the rows of its beats are 2^32 - 1 s old
    newer A    H2  sends A incarnations at the end of the range, then one nearly ten years ahead;
                   then the file `told` appears
    alone      H4  its beats report only itself
    phantoms   M1  its beats report 60,000 nodes that do not exist
    mute A     M2  answers no question over streams, and asks A many that pass down the tree

Without the file, or with an empty one, it tells the truth. It asks about listing after seconds, not ten minutes.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import msgspec
import trio

from subord import cli, daemon
from subord.api.handlers import peer_answers
from subord.core.edges import listing
from subord.core.messages import CHANGES_MAX, Beat, Change, Message
from subord.runtime.driver import Driver
from subord.runtime.net.peer_query import Question
from subord.runtime.net.streams import Streams
from subord.runtime.net.transport import Transport
from subord.sealing.header import What
from subord.sealing.incarnation import LEAP_MS_MAX, LIFE_MAX
from subord.sealing.sealer import CHANCE_BITS, NUMBER_BYTES

listing.INTERVAL_S, listing.AGAIN_S = 4.0, 1.0  # type: ignore[misc]
LOOK_S: Final = 0.2
PHANTOMS: Final = range(4000, 64_000)
NEWER_TIMES: Final = 800
QUESTIONS: Final = 64
AGE_TOP: Final = (1 << 32) - 1
MARGIN_MS: Final = 86_400_000
assert daemon


class Liar:
    """The current lie of one process, and the altered messages."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._seen = 0.0, ""
        self._node: Any = None

    @property
    def words(self) -> list[str]:
        try:
            changed_at = self._file.stat().st_mtime
        except FileNotFoundError:
            return [""]
        if changed_at != self._seen[0]:
            self._seen = changed_at, self._file.read_text()
        return self._seen[1].split() or [""]

    def altered(self, message: Message) -> Message:
        """The message to send in place of `message`."""
        if not isinstance(message, Beat):
            return message
        match self.words[0]:
            case "age":
                told = message.changes or (self._own_row(),)
                rows = tuple(msgspec.structs.replace(row, age_s=AGE_TOP) for row in told)
                return msgspec.structs.replace(message, changes=rows)
            case "alone":
                return msgspec.structs.replace(message, changes=(self._own_row(),), gone=(), more=False, rows=1)
            case "phantoms":
                return msgspec.structs.replace(message, rows=0, digest=0)
            case _:
                return message

    async def lie_forever(self, driver: Driver) -> None:
        """Send the additional messages of the lie."""
        transport: Transport = driver._transport
        self._node = driver.node
        while True:
            match self.words:
                case ["phantoms"]:
                    for beat in self._beats(driver):
                        transport.send(beat, driver._network.address_text_of(driver.node.uplink.leader.position))
                        await trio.sleep(0.005)
                case ["newer", target]:
                    await storm(transport, (target, transport._port))
                    self._file.with_name("told").touch()
            await trio.sleep(LOOK_S)

    def _own_row(self) -> Change:
        row: Change = self._node.roster.rows[self._node.context.position][1].change
        return row

    def _beats(self, driver: Driver) -> Iterator[Beat]:
        node = driver.node
        own = node.context.position
        tree = [own, *PHANTOMS]
        for first in range(1, len(tree), CHANGES_MAX):
            if (leader := node.uplink.leader) is None or self.words != ["phantoms"]:
                return
            rows = tuple(
                Change(tree[index], tree[(index - 1) // 2], 2, 1 << 40, 1, 0)
                for index in range(first, min(first + CHANGES_MAX, len(tree)))
            )
            number = node.context.next_number()
            yield Beat(node.context.incarnation, leader.incarnation, number, 5000, 0, rows)

    async def ask_forever(self, streams: Streams) -> None:
        """Ask questions, at most QUESTIONS at a time."""
        async with trio.open_nursery() as nursery:
            while True:
                match self.words:
                    case ["mute", target] if len(nursery.child_tasks) < QUESTIONS:
                        for topic in ("problems", "keys"):
                            nursery.start_soon(streams.ask, target, Question(topic, ("everybody",), 60.0), 65.0)
                    case _:
                        await trio.sleep(LOOK_S)
                await trio.sleep(0.01)


async def storm(transport: Transport, target: tuple[str, int]) -> None:
    """Send NEWER messages, with the ticket that the target has given."""
    sealer: Any = transport.sealer
    peer = sealer._peers.get(target)
    if peer is None:
        return
    ahead = int(time.time() * 1000) + LEAP_MS_MAX - MARGIN_MS
    for life in (*range(LIFE_MAX - 1 - NEWER_TIMES, LIFE_MAX), ahead):
        content = (life << CHANCE_BITS).to_bytes(NUMBER_BYTES, "big")
        told = sealer._ticket_for(target) + content
        data, _ = sealer._encrypt(What.NEWER, told, target, sealer.keyring.primary, peer.ticket, with_ticket=True)
        transport.sock.send(data, *target)
        await trio.sleep(0.002)


def main(argv: list[str]) -> int | None:
    """As that of the daemon: `run --config FILE`."""
    liar = Liar(Path(argv[-1]).parent / "lie")
    send, run, serve, answer = Transport.send, Driver.run, Streams.serve, peer_answers.answer

    async def beside(one: Any, *words: Any, other: Any) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(one, *words)
            nursery.start_soon(other, words[0])

    async def answered(shown: Any, question: Question) -> bytes:
        if liar.words[0] == "mute":
            await trio.sleep_forever()
        return await answer(shown, question)

    patched: Any = Transport
    patched.send = lambda transport, message, *rest: send(transport, liar.altered(message), *rest)
    patched = Driver
    patched.run = lambda driver: beside(run, driver, other=liar.lie_forever)
    patched = Streams
    patched.serve = lambda streams, listening: beside(serve, streams, listening, other=liar.ask_forever)
    patched = peer_answers
    patched.answer = answered
    return cli.main(argv)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
