"""Seeds: the nodes that the operator names, looked up and told to the core while we have no leader.

Intuition: a note on the door, "if nobody is here, try these". Numbers on it can be dialled at once; names have to be
looked up, and the book may be away for a while. Whoever has found somebody does not look at the note again.

Looking up is for threads: the daemon neither waits for it at its start nor stops because of it.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from ipaddress import ip_address
from typing import NoReturn

import trio

from subord.config.hostlist import is_address
from subord.config.resolve import ResolveError, Version, addresses_of
from subord.core.address.network import Network
from subord.core.state.view import Position

logger = logging.getLogger("subord")

LOOKUP_S_MAX = 10.0  # for all names together; what comes later is thrown away
LOOKUPS_AT_ONCE_MAX = 4  # threads; one that hangs in the resolver keeps its place until it comes back
AGAIN_S_MIN = 5.0
AGAIN_S_MAX = 60.0
ADDRESSES_PER_NAME_MAX = 16


ResolveAside = Callable[[str, Version], Awaitable[tuple[str, ...]]]
"""As `addresses_of`, but without blocking. Raises ResolveError."""


class SeedList:
    """One per daemon. `tell` takes the positions in the order of the list whenever they changed."""

    def __init__(
        self,
        network: Network,
        own: Position,
        tell: Callable[[tuple[Position, ...]], None],
        has_leader: Callable[[], bool],
        resolve: ResolveAside | None = None,
    ) -> None:
        """`resolve` is for tests; else the resolver of this machine is asked, in threads."""
        self._network = network
        self._own = own
        self._tell = tell
        self._has_leader = has_leader
        self._resolve = resolve or _in_threads()
        self._seeds: tuple[str, ...] = ()
        self._found: dict[str, tuple[Position, ...]] = {}  # of each seed, as last found
        self._complaints: dict[str, str] = {}  # of each seed, as last told
        self._told: tuple[Position, ...] = ()
        self._is_new = False
        self._stirred = trio.Event()

    def replace(self, seeds: Sequence[str]) -> None:
        """Take this list from now on: its addresses at once, its names as soon as they are found."""
        self._seeds = tuple(dict.fromkeys(seeds))
        self._found = {seed: found for seed, found in self._found.items() if seed in self._seeds}
        self._complaints = {seed: text for seed, text in self._complaints.items() if seed in self._seeds}
        for seed in self._seeds:
            if is_address(seed):
                self._take(seed, (seed,))
        self._tell_if_changed()
        self._is_new = True
        self._stirred.set()

    def look_again(self) -> None:
        """We got a leader, or lost it."""
        self._stirred.set()

    async def keep_forever(self) -> NoReturn:
        """Look the names up, again and again while we have no leader; not at all while we have one."""
        while True:
            self._is_new = False
            await self._look_up()
            await self._look_up_while_alone()

    async def _look_up_while_alone(self) -> None:
        """Until there is a new list."""
        pause_s = AGAIN_S_MIN
        due = trio.current_time() + pause_s
        while not self._is_new:
            self._stirred = trio.Event()
            if self._has_leader() or not self._names():
                await self._stirred.wait()
                pause_s = AGAIN_S_MIN
                due = trio.current_time() + pause_s
                continue
            with trio.move_on_at(due) as rest:
                await self._stirred.wait()
            if rest.cancelled_caught:
                await self._look_up()
                pause_s = min(2 * pause_s, AGAIN_S_MAX)
                due = trio.current_time() + pause_s

    def _names(self) -> list[str]:
        return [seed for seed in self._seeds if not is_address(seed)]

    async def _look_up(self) -> None:
        """All names once, each answer told as it comes."""
        unanswered = set(self._names())
        with trio.move_on_after(LOOKUP_S_MAX):
            async with trio.open_nursery() as nursery:
                for name in self._names():
                    nursery.start_soon(self._look_up_one, name, unanswered)
        for name in sorted(unanswered):
            self._complain(name, f"has no address: the resolver did not answer within {LOOKUP_S_MAX:g} s")

    async def _look_up_one(self, name: str, unanswered: set[str]) -> None:
        try:
            addresses = await self._resolve(name, self._network.version)
        except ResolveError as error:
            unanswered.discard(name)
            self._complain(name, f"has no address: {error}")
            return
        unanswered.discard(name)
        self._take(name, addresses[:ADDRESSES_PER_NAME_MAX])
        self._tell_if_changed()

    def _take(self, seed: str, addresses: Sequence[str]) -> None:
        if seed not in self._seeds:
            return  # the list changed while we looked
        positions = {address: self._network.position_of(address) for address in addresses}
        self._found[seed] = tuple(each for each in positions.values() if each is not None and each != self._own)
        # A machine often calls itself 127.0.1.1; that is no mistake of this list.
        outside = [
            each for each, position in positions.items() if position is None and not _is_its_own_name(seed, each)
        ]
        if outside:
            what = "" if is_address(seed) else f"is {outside[0]} and "
            self._complain(seed, f"{what}lies outside the network")
        else:
            self._complaints.pop(seed, None)

    def _tell_if_changed(self) -> None:
        found = (position for seed in self._seeds for position in self._found.get(seed, ()))
        positions = tuple(dict.fromkeys(found))
        if positions != self._told:
            self._told = positions
            self._tell(positions)

    def _complain(self, seed: str, reason: str) -> None:
        """Once per reason, not per try."""
        if seed in self._seeds and self._complaints.get(seed) != reason:
            self._complaints[seed] = reason
            logger.warning(
                "the seed %s %s; it is skipped: correct node.seeds, or what the name stands for", seed, reason
            )


def _in_threads() -> ResolveAside:
    limiter = trio.CapacityLimiter(LOOKUPS_AT_ONCE_MAX)

    async def resolve(name: str, version: Version) -> tuple[str, ...]:
        lookup = partial(addresses_of, name, version)
        return await trio.to_thread.run_sync(lookup, abandon_on_cancel=True, limiter=limiter)

    return resolve


def _is_its_own_name(seed: str, address: str) -> bool:
    return not is_address(seed) and ip_address(address).is_loopback
