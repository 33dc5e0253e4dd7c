"""What a lying member does with orders of `subord exec`: it alters those that pass, gives false ones, and repeats.

Inputs are the frames that the member receives and sends, and a file that every node can write to; outputs are the
frames that it sends instead, and orders of its own. It has no key of an operator. Each order appends the name of its
lie to the file, so a line that does not begin with GENUINE must not be.
"""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

import msgspec

from subord.core.carriage.engine import bounds
from subord.core.carriage.engine.acting import service_orders
from subord.core.carriage.engine.acting.service_orders import Authority
from subord.core.carriage.engine.frames import Ask, Order, Unreadable, decode, encode
from subord.core.carriage.engine.ranges import Ranges
from subord.core.carriage.orders import Cluster
from subord.runtime.orders.driver import OrderDriver
from subord.services.exec import task

SERVICE = "exec"
GENUINE = "genuine"
LEFT_S = 5.0
Sign = Callable[[bytes, str], bytes]
"""A signature of a stranger over a content, for a namespace."""


class Falsified(NamedTuple):
    """An order that does not count. `targets` None: all members."""

    payload: bytes
    targets: Ranges | None
    tag: bytes
    authority: bytes


class OrderLies:
    """The lies of one member."""

    def __init__(self) -> None:
        self._kept: Order | None = None

    def hears(self, data: bytes) -> None:
        """A frame comes: keep the last genuine order."""
        found = _ask_in(data)
        if found is not None:
            self._kept = found.order

    @staticmethod
    def says(data: bytes, file: str) -> bytes:
        """The frame to send in the place of this one."""
        asked = _ask_in(data)
        if asked is None:
            return data
        frame = decode(data)
        order = msgspec.structs.replace(asked.order, payload=payload(file, "altered on the way"))
        return encode(frame.sender, frame.receiver, msgspec.structs.replace(asked, order=order))

    async def give_all(self, orders: OrderDriver, file: str, cluster: Cluster, sign: Sign) -> None:
        """Each false order once."""
        for each in self._all(file, cluster, sign):
            await orders.order(SERVICE, each.payload, each.targets, LEFT_S, tag=each.tag, authority=each.authority)

    def _all(self, file: str, cluster: Cluster, sign: Sign) -> Iterator[Falsified]:
        now_ms = int(time.time() * 1000)
        new = service_orders.valid_for("root", now_ms, LEFT_S)
        yield Falsified(payload(file, "unsigned"), None, _tag(), b"")
        yield Falsified(payload(file, "without signature"), None, _tag(), service_orders.encode(new))
        order = Order(_tag(), SERVICE, payload(file, "signed by a stranger"), None, 1)
        signature = sign(service_orders.content_of(cluster, order, new), f"subord.{SERVICE}")
        yield Falsified(order.payload, None, order.tag, _with(new, signature))
        if self._kept is None:
            return
        kept, authority = self._kept, service_orders.decode(self._kept.authority)
        assert authority is not None
        yield Falsified(kept.payload, kept.targets, kept.tag, kept.authority)
        yield Falsified(payload(file, "altered payload"), kept.targets, kept.tag, kept.authority)
        yield Falsified(payload(file, "another tag"), kept.targets, _tag(), kept.authority)
        yield Falsified(kept.payload, kept.targets, _tag(), kept.authority)
        yield Falsified(kept.payload, Ranges(((1, bounds.TAGS_MAX),)), kept.tag, kept.authority)
        for change in ({"user": "nobody"}, {"expires_ms": authority.expires_ms + 1}, {"run_ms": 1}):
            changed = msgspec.structs.replace(authority, **change)
            yield Falsified(kept.payload, kept.targets, kept.tag, _with(changed, authority.signature))


def payload(file: str, lie: str) -> bytes:
    """Of an order that appends the name of a lie."""
    words = ("sh", "-c", f'echo "{lie} $SUBORD_TAG $SUBORD_NODE" >> {file}')
    return task.encode(task.Run(tuple(map(os.fsencode, words))))


def _ask_in(data: bytes) -> Ask | None:
    """A question about a genuine order."""
    try:
        body = decode(data).body
    except Unreadable:
        return None
    is_one = isinstance(body, Ask) and body.order.service == SERVICE and GENUINE.encode() in body.order.payload
    return body if isinstance(body, Ask) and is_one else None


def _with(authority: Authority, signature: bytes) -> bytes:
    return service_orders.encode(msgspec.structs.replace(authority, signature=signature))


def _tag() -> bytes:
    return secrets.token_bytes(bounds.TAG_BYTES)
