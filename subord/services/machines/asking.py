"""Asks servers, and gives them orders, through the daemon of the queue's node, with the key of its configuration.

Inputs are a fence, orders, and the context of the agent; outputs are answers and results, or texts that say why there
are none. Which nodes are servers is asked of all daemons each FIND_S; then a signed order asks each portion of them,
for which one answer has room by what they have last said. Requests block, so they are made in threads: at most
ASKING_MAX for questions, and DOING_MAX for orders. Invariants: nothing is raised for what the daemon or a server
does; servers that hang hold up no question; no server is left out twice because others have said much.
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Final, TypeVar

import trio

from subord.client.daemon import DAEMON_GRACE_S, Document, ask
from subord.client.errors import CommandError
from subord.client.orders import key_orders
from subord.client.orders.key_orders import KeyOrder
from subord.core.address.network import Network
from subord.core.carriage.engine.bounds import ANSWER_BYTES_MAX
from subord.core.carriage.engine.causes import DENIED
from subord.core.carriage.engine.ranges import Ranges
from subord.services.acting import Context
from subord.services.machines import servers
from subord.services.machines.orders import Fence, Order
from subord.services.machines.servers import Figures, Result
from subord.services.machines.task import (
    ORDERS_MAX,
    RESULT_BYTES_MAX,
    USER,
    Answer,
    Ask,
    Deed,
    Do,
    NoServer,
    Results,
    Said,
    Told,
    decode_said,
    encode,
    told_of,
)
from subord.services.serving import targets_of

SERVICE: Final = "machines"
AT_ONCE: Final = 100
"""Servers of one order, at most."""
ROOM_BYTES: Final = ANSWER_BYTES_MAX * 3 // 4
"""Of what servers of one order have last said, as they may have more machines now."""
ASKING_MAX, DOING_MAX = 4, 8
"""The daemon answers 16 requests at once, those of commands among them."""
FIND_S: Final = 60.0
WHERE_S: Final = 3.0
ASK_S: Final = 8.0
DO_S: Final = 20.0
THREAD_GRACE_S: Final = 20.0
"""For ssh-keygen, and for a daemon that does not answer."""
PAYLOAD_BYTES_MAX: Final = 30_000
HINT: Final = f'; allow the operator of machines.key services = ["{SERVICE}"], users = ["{USER}"] there'
UNREADABLE: Final = "the answer cannot be read: it is of another release; install the same release on all nodes"
TOO_LARGE: Final = (
    "what is to be said of the machine has no room in an order; it stays where it is: set moves to false in the plan"
)
NO_SERVER: Final = "machines.uri of this node is empty, so it is no server; nothing was done"
OTHER_NAME: Final = "it answers as the server {name}, and its machines are not used: restart its agent"
NO_ROOM: Final = "its answer had no room beside those of others; with fewer others it is asked again"
NO_ADDRESS: Final = "this is no address of the cluster's network; no order was given"
LATE: Final = "the daemon of this node has not answered within {s:g} s"
Found = TypeVar("Found")


class DaemonServers:
    """`context`: of the agent of the queue's node."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._asking, self._doing = trio.CapacityLimiter(ASKING_MAX), trio.CapacityLimiter(DOING_MAX)
        self._known = Ranges()
        self._found_at: float | None = None
        self._messages = self._bytes = 0
        self._sizes = dict[int, int]()
        """Bytes of the last answers, by position."""

    @property
    def figures(self) -> Figures:
        return Figures(self._messages, self._bytes)

    async def ask(self, fence: Fence) -> tuple[Mapping[str, servers.Answer], Mapping[str, str]]:
        """As Servers."""
        if fault := await self._find():
            return {}, {self._context.node: fault}
        answers, missing = dict[str, servers.Answer](), dict[str, str]()

        async def ask_some(some: Ranges) -> None:
            for address, said in (await self._said(some, Ask(*fence, self._context.node), ASK_S)).items():
                if isinstance(said, Answer) and said.server != address:
                    missing[address] = OTHER_NAME.format(name=said.server)
                elif isinstance(said, Answer):
                    answers[address] = said.heard
                elif not isinstance(said, NoServer):
                    missing[address] = (said.fault if isinstance(said, Results) else said) or UNREADABLE

        async with trio.open_nursery() as nursery:
            for some in _portions(self._known, self._sizes):
                nursery.start_soon(ask_some, some)
        return answers, missing

    async def do(self, server: str, orders: tuple[Order, ...]) -> tuple[Result, ...] | str:
        """As Servers."""
        network = self._context.network
        position = None if network is None else network.position_of(server)
        if position is None:
            await trio.lowlevel.checkpoint()
            return NO_ADDRESS
        results: dict[int, Result] = {}
        told = dict[int, Told]()
        for at, order in enumerate(orders):
            each = told_of(order)
            if each is None:
                results[at] = Result(TOO_LARGE, is_refused=True)
            else:
                told[at] = each
        fault = ""
        for some in _parcels(told):
            found = await self._done(server, position, orders[0].fence, some)
            if isinstance(found, str):
                fault = found
                found = dict.fromkeys(some, Result(found))
            results |= found
        is_none = bool(fault) and all(each.fault == fault for each in results.values())
        return fault if is_none else tuple(results[at] for at in range(len(orders)))

    # -- parts ----------------------------------------------------------------------------------------------------

    async def _find(self) -> str:
        """Which nodes are servers; why that is not known at all. Those that do not answer stay known."""
        now = trio.current_time()
        if self._found_at is not None and now - self._found_at < FIND_S:
            return ""
        found = await _in_thread(partial(_where, self._context), WHERE_S, self._asking)
        if isinstance(found, str):
            return "" if self._known else found
        now_servers, silent = found
        kept = (each for each in self._known if each in silent)
        self._known = Ranges.of_pairs([*now_servers.pairs, *((each, each) for each in kept)])
        self._found_at = now if self._known else None
        return ""

    async def _done(self, server: str, position: int, fence: Fence, some: dict[int, Told]) -> dict[int, Result] | str:
        """Results of some orders by their numbers; the text: why there are none."""
        task = Do(*fence, self._context.node, tuple(some.values()))
        said = (await self._said(Ranges.of((position,)), task, DO_S)).get(server, UNREADABLE)
        if isinstance(said, str | NoServer):
            return said if isinstance(said, str) else NO_SERVER
        if not isinstance(said, Results) or said.fault or len(said.results) != len(some):
            return (said.fault if isinstance(said, Results) else "") or UNREADABLE
        return dict(zip(some, (each.result for each in said.results), strict=True))

    async def _said(self, positions: Ranges, task: Ask | Do, time_s: float) -> dict[str, Said | str]:
        """What nodes say by their addresses; the texts: why they do not."""
        network, key = self._context.network, self._context.machines.key
        assert network is not None
        addresses = [network.address_text_of(each) for each in positions]
        if fault := key_orders.key_fault("machines.key", key, "orders to servers"):
            return dict.fromkeys(addresses, f"{fault}; no order was given")
        payload = encode(task)
        self._count(len(addresses), len(addresses) * len(payload))
        order = KeyOrder(SERVICE, key, USER, payload, str(positions))
        once = isinstance(task, Ask)
        give = partial(_given, order, self._context, time_s, lambda found: once or not key_orders.may_answer(found))
        found = await _in_thread(give, time_s, self._asking if once else self._doing)
        if isinstance(found, str):
            return dict.fromkeys(addresses, found)
        said = dict(_read(found))
        if once:
            self._note_sizes(found, positions, network)
        self._count(len(found["results"]), sum(len(each["said"]) * 3 // 4 for each in found["results"]))
        return {each: said.get(each, NO_ROOM) for each in addresses}

    def _note_sizes(self, found: Document, asked: Ranges, network: Network) -> None:
        """The size of an answer that had no room is not known: it is taken for the largest."""
        self._sizes.update(dict.fromkeys(asked, RESULT_BYTES_MAX))
        for address in (address for each in found["missing"] for address in each["addresses"]):
            self._sizes.pop(network.position_of(address) or 0, None)
        for each in found["results"]:
            size = len(each["said"]) * 3 // 4
            self._sizes.update((network.position_of(address) or 0, size) for address in each["addresses"])

    def _count(self, messages: int, number: int) -> None:
        self._messages += messages
        self._bytes += number


async def _in_thread(work: Callable[[], Found], time_s: float, limiter: trio.CapacityLimiter) -> Found | str:
    """A thread that hangs is left behind, and keeps its place in the limiter."""
    with trio.move_on_after(time_s + THREAD_GRACE_S):
        return await trio.to_thread.run_sync(work, abandon_on_cancel=True, limiter=limiter)
    return LATE.format(s=time_s + THREAD_GRACE_S)


def _where(context: Context) -> tuple[Ranges, Ranges] | str:
    """The servers, and the nodes that have not answered. Blocks."""
    try:
        found = ask(context.socket, f"/v1/{SERVICE}/where?budget={WHERE_S:.3f}", WHERE_S + DAEMON_GRACE_S)
    except CommandError as error:
        return str(error)
    return _ranges(found["servers"], context), _ranges(found["silent"], context)


def _ranges(text: str, context: Context) -> Ranges:
    size = 0 if context.network is None else context.network.size
    return (targets_of(text, size) if text else None) or Ranges()


def _given(order: KeyOrder, context: Context, time_s: float, is_over: Callable[[Document], bool]) -> Document | str:
    """Blocks."""
    try:
        return key_orders.given(order, context.socket, time_s, is_over)
    except CommandError as error:
        return str(error)


def _read(found: Document) -> Iterator[tuple[str, Said | str]]:
    for each in found["results"]:
        said = decode_said(b64decode(each["said"]))
        yield from ((address, UNREADABLE if said is None else said) for address in each["addresses"])
    for each in found["missing"]:
        text = f"{each['cause']}: {each['text']}{HINT if each['cause'] == DENIED else ''}"
        yield from ((address, text) for address in each["addresses"])


def _portions(known: Ranges, sizes: Mapping[int, int]) -> Iterator[Ranges]:
    """`sizes`: of the last answers; others are taken for such of which AT_ONCE have room."""
    some, left = list[int](), ROOM_BYTES
    for position in known:
        size = sizes.get(position, ROOM_BYTES // AT_ONCE)
        if some and (len(some) == AT_ONCE or size > left):
            yield Ranges.of(some)
            some, left = [], ROOM_BYTES
        some.append(position)
        left -= size
    if some:
        yield Ranges.of(some)


def _parcels(told: Mapping[int, Told]) -> Iterator[dict[int, Told]]:
    """What one order, and its result, have room for: a result has at most one definition."""
    some, size = dict[int, Told](), 0
    for at, each in told.items():
        bytes_ = len(each.xml.encode()) + 4 * (len(each.machine) + len(each.type) + len(each.peer)) + 100
        leaves = each.deed is Deed.LEAVE and any(other.deed is Deed.LEAVE for other in some.values())
        if some and (leaves or size + bytes_ > PAYLOAD_BYTES_MAX or len(some) >= ORDERS_MAX):
            yield some
            some, size = {}, 0
        some[at] = each
        size += bytes_
    if some:
        yield some
