"""Looks up the seeds, the nodes that the operator names, and gives their positions to the core.

In: the list of the configuration. Out: positions in the order of the list, whenever they change. Addresses are used
at once; names are looked up in threads, at the start and again with backoff while the node has no leader. A resolver
that does not answer delays neither the start nor the end of the daemon.
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
from subord.core.view import Position

logger = logging.getLogger("subord")

LOOKUP_S_MAX = 10.0  # for all names together; later answers are dropped
LOOKUPS_AT_ONCE_MAX = 4  # threads; one that hangs in the resolver counts until it returns
AGAIN_S_MIN = 5.0
AGAIN_S_MAX = 60.0
ADDRESSES_PER_NAME_MAX = 16


AsyncResolve = Callable[[str, Version], Awaitable[tuple[str, ...]]]
"""As `addresses_of`, but without blocking. Raises ResolveError."""


class SeedList:
    """The seeds of one daemon. `tell` receives the positions in the order of the list whenever they change."""

    def __init__(
        self,
        network: Network,
        own: Position,
        tell: Callable[[tuple[Position, ...]], None],
        has_leader: Callable[[], bool],
        resolve: AsyncResolve | None = None,
    ) -> None:
        """`resolve` defaults to the resolver of this machine, called in threads."""
        self._network = network
        self._own = own
        self._tell = tell
        self._has_leader = has_leader
        self._resolve = resolve or _in_threads()
        self._seeds: tuple[str, ...] = ()
        self._found: dict[str, tuple[Position, ...]] = {}  # by seed, from its last lookup
        self._complaints: dict[str, str] = {}  # by seed, as last logged
        self._told: tuple[Position, ...] = ()
        self._is_new = False
        self._changed = trio.Event()

    def replace(self, seeds: Sequence[str]) -> None:
        """Replace the list: addresses take effect at once, names when their lookup ends."""
        self._seeds = tuple(dict.fromkeys(seeds))
        self._found = {seed: found for seed, found in self._found.items() if seed in self._seeds}
        self._complaints = {seed: text for seed, text in self._complaints.items() if seed in self._seeds}
        for seed in self._seeds:
            if is_address(seed):
                self._take(seed, (seed,))
        self._tell_if_changed()
        self._is_new = True
        self._changed.set()

    def look_again(self) -> None:
        """The node got a leader or lost it."""
        self._changed.set()

    async def keep_forever(self) -> NoReturn:
        """Look the names up once for each new list, and again while the node has no leader."""
        while True:
            self._is_new = False
            await self._look_up()
            await self._look_up_without_leader()

    async def _look_up_without_leader(self) -> None:
        """Look the names up with backoff while there is no leader, until there is a new list."""
        backoff_s = AGAIN_S_MIN
        due = trio.current_time() + backoff_s
        while not self._is_new:
            self._changed = trio.Event()
            if self._has_leader() or not self._names():
                await self._changed.wait()
                backoff_s = AGAIN_S_MIN
                due = trio.current_time() + backoff_s
                continue
            with trio.move_on_at(due) as rest:
                await self._changed.wait()
            if rest.cancelled_caught:
                await self._look_up()
                backoff_s = min(2 * backoff_s, AGAIN_S_MAX)
                due = trio.current_time() + backoff_s

    def _names(self) -> list[str]:
        return [seed for seed in self._seeds if not is_address(seed)]

    async def _look_up(self) -> None:
        """Look all names up once. Each answer takes effect as it arrives."""
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
            return  # the list changed during the lookup
        positions = {address: self._network.position_of(address) for address in addresses}
        self._found[seed] = tuple(each for each in positions.values() if each is not None and each != self._own)
        # A machine often resolves its own name to 127.0.1.1; the list is correct then.
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
        """Log each reason once, not at each lookup."""
        if seed in self._seeds and self._complaints.get(seed) != reason:
            self._complaints[seed] = reason
            logger.warning("the seed %s %s; it is skipped: correct node.seeds or the name", seed, reason)


def _in_threads() -> AsyncResolve:
    limiter = trio.CapacityLimiter(LOOKUPS_AT_ONCE_MAX)

    async def resolve(name: str, version: Version) -> tuple[str, ...]:
        lookup = partial(addresses_of, name, version)
        return await trio.to_thread.run_sync(lookup, abandon_on_cancel=True, limiter=limiter)

    return resolve


def _is_its_own_name(seed: str, address: str) -> bool:
    return not is_address(seed) and ip_address(address).is_loopback
