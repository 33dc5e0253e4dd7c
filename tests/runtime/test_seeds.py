"""Seeds: reported positions, repeated lookups, and logged failures."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager

import pytest
import trio
import trio.testing

from subord.config.resolve import ResolveError, addresses_of
from subord.core.address.network import Network
from subord.runtime.net.seeds import ADDRESSES_PER_NAME_MAX, LOOKUP_S_MAX, SeedList

OWN = 9
UNKNOWN = "name or service not known"
SKIPPED = "; it is skipped: correct node.seeds or the name"


class FakeResolver:
    """A resolver with given answers. None: it never answers."""

    def __init__(self, **answers: Iterable[str] | str | None) -> None:
        self.answers = dict(answers)
        self.asked: list[tuple[float, str]] = []

    async def resolve(self, name: str, version: int) -> tuple[str, ...]:
        self.asked.append((trio.current_time(), name))
        await trio.lowlevel.checkpoint()
        answer = self.answers.get(name, UNKNOWN)
        if answer is None:
            await trio.sleep_forever()
        if isinstance(answer, str):
            raise ResolveError(answer, passing=True)
        return tuple(each for each in answer if (":" in each) == (version == 6))


class RunningSeeds:
    """A seed list of the node 10.0.0.9."""

    def __init__(self, resolver: FakeResolver, network: str = "10.0.0.0/24") -> None:
        self.resolver = resolver
        self.told: list[tuple[int, ...]] = []
        self.has_leader = False
        self.began = trio.current_time()
        self.seeds = SeedList(
            Network.parse(network), OWN, self.told.append, lambda: self.has_leader, resolve=resolver.resolve
        )

    def lead(self, has_leader: bool) -> None:
        self.has_leader = has_leader
        self.seeds.look_again()

    def asked_at(self) -> list[float]:
        """The times of lookups, in seconds since the start."""
        return [round(at - self.began, 3) for at, _ in self.resolver.asked]


@asynccontextmanager
async def running(resolver: FakeResolver, *seeds: str, network: str = "10.0.0.0/24") -> AsyncIterator[RunningSeeds]:
    kept = RunningSeeds(resolver, network)
    async with trio.open_nursery() as nursery:
        kept.seeds.replace(seeds)
        nursery.start_soon(kept.seeds.keep_forever)
        await trio.testing.wait_all_tasks_blocked()
        yield kept
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize(
    ("seeds", "answers", "told"),
    [
        ((), {}, None),
        (("10.0.0.7", "10.0.0.3"), {}, (7, 3)),
        (("10.0.0.7", "10.0.0.9", "10.0.0.7"), {}, (7,)),  # its own, and one twice
        (("10.0.0.9",), {}, None),
        (("10.0.0.7", "login1", "10.0.0.3"), {"login1": ["10.0.0.1"]}, (7, 1, 3)),
        (("a", "b"), {"a": ["10.0.0.2", "10.0.0.1"], "b": ["10.0.0.1", "10.0.0.4"]}, (2, 1, 4)),
        (("a",), {"a": ["10.0.0.9"]}, None),
        (("a",), {"a": ["fd00::1", "10.0.0.2"]}, (2,)),
        (("a", "b"), {"b": ["10.0.0.4"]}, (4,)),  # the first is not known
        (("many",), {"many": [f"10.0.0.{n}" for n in range(20, 60)]}, tuple(range(20, 20 + ADDRESSES_PER_NAME_MAX))),
    ],
)
async def test_the_positions_in_the_order_of_the_list(
    autojump_clock: trio.testing.MockClock, seeds: tuple[str, ...], answers: dict[str, list[str]], told: object
) -> None:
    async with running(FakeResolver(**answers), *seeds) as kept:
        assert (kept.told[-1] if kept.told else None) == told


@pytest.mark.parametrize(
    ("seed", "answers", "warning"),
    [
        ("10.1.0.7", {}, "the seed 10.1.0.7 lies outside the network"),
        ("fd00::1", {}, "the seed fd00::1 lies outside the network"),
        ("a", {"a": ["192.0.2.1"]}, "the seed a is 192.0.2.1 and lies outside the network"),
        ("a", {}, f"the seed a has no address: {UNKNOWN}"),
        ("a", {"a": None}, f"the seed a has no address: the resolver did not answer within {LOOKUP_S_MAX:g} s"),
        ("own-name", {"own-name": ["127.0.1.1"]}, None),  # as a machine often calls itself
        ("127.0.1.1", {}, "the seed 127.0.1.1 lies outside the network"),
    ],
)
async def test_an_unusable_seed_is_logged_once(
    autojump_clock: trio.testing.MockClock,
    warnings: list[str],
    seed: str,
    answers: dict[str, list[str] | None],
    warning: str | None,
) -> None:
    async with running(FakeResolver(**answers), seed, "10.0.0.2") as kept:
        await trio.sleep(300)
        assert kept.told == [(2,)]
    assert warnings == ([] if warning is None else [warning + SKIPPED])


async def test_another_reason_is_logged_again(autojump_clock: trio.testing.MockClock, warnings: list[str]) -> None:
    async with running(FakeResolver(a="first"), "a") as kept:
        kept.resolver.answers["a"] = "second"
        await trio.sleep(6)
    assert [text.partition(";")[0] for text in warnings] == [
        "the seed a has no address: first", "the seed a has no address: second"
    ]  # fmt: skip


async def test_without_a_leader_names_are_looked_up_with_backoff(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with running(FakeResolver(a=["10.0.0.2"]), "a") as kept:
        await trio.sleep(200)
        assert kept.asked_at() == [0, 5, 15, 35, 75, 135, 195]
        assert kept.told == [(2,)]  # only what changed is told
        kept.resolver.answers["a"] = ["10.0.0.3"]
        await trio.sleep(60)
        assert kept.told == [(2,), (3,)]
        kept.resolver.answers["a"] = UNKNOWN
        await trio.sleep(60)
        assert kept.told == [(2,), (3,)]  # the last answer stands while there is no better one


async def test_with_a_leader_nothing_is_looked_up(autojump_clock: trio.testing.MockClock) -> None:
    async with running(FakeResolver(), "a") as kept:  # a name that did not resolve
        await trio.sleep(20)
        kept.lead(True)
        await trio.sleep(1000)
        kept.lead(True)  # another one
        await trio.sleep(1000)
        assert kept.asked_at() == [0, 5, 15]
        kept.lead(False)
        await trio.sleep(20)
        assert kept.asked_at()[3:] == [2025, 2035]


async def test_events_without_a_leader_do_not_delay_the_lookup(autojump_clock: trio.testing.MockClock) -> None:
    async with running(FakeResolver(), "a") as kept:
        for _ in range(10):
            await trio.sleep(1)
            kept.lead(False)
        assert kept.asked_at() == [0, 5]


async def test_addresses_never_need_the_resolver(autojump_clock: trio.testing.MockClock) -> None:
    async with running(FakeResolver(), "10.0.0.2", "fd00::1") as kept:
        await trio.sleep(1000)
        assert kept.asked_at() == []


async def test_a_new_list_takes_effect_at_once(autojump_clock: trio.testing.MockClock) -> None:
    async with running(FakeResolver(a=["10.0.0.2"], b=["10.0.0.4"]), "a", "10.0.0.3") as kept:
        kept.lead(True)
        await trio.sleep(100)
        kept.seeds.replace(["b", "10.0.0.5"])
        assert kept.told[2:] == [(5,)]
        await trio.sleep(1)
        kept.seeds.replace([])
        assert kept.told == [(3,), (2, 3), (5,), (4, 5), ()]


async def test_a_name_that_hangs_does_not_delay_the_others(autojump_clock: trio.testing.MockClock) -> None:
    async with running(FakeResolver(a=None, b=["10.0.0.4"]), "a", "b", "10.0.0.2") as kept:
        assert trio.current_time() - kept.began < LOOKUP_S_MAX
        assert kept.told == [(2,), (4, 2)]


async def test_a_list_that_changes_while_names_are_looked_up(autojump_clock: trio.testing.MockClock) -> None:
    async with running(FakeResolver(a=None, b=["10.0.0.4"]), "a") as kept:
        kept.seeds.replace(["b"])
        await trio.sleep(LOOKUP_S_MAX + 1)
        assert kept.told == [(4,)]


async def test_the_system_resolver_is_called_in_a_thread(
    monkeypatch: pytest.MonkeyPatch, warnings: list[str]
) -> None:
    def answers(name: str, *_: object) -> list[tuple[object, ...]]:
        return [(2, 2, 17, "", (address, 0)) for address in ("10.0.0.3", "10.0.0.3", "10.0.0.4")]

    monkeypatch.setattr("socket.getaddrinfo", answers)
    told: list[tuple[int, ...]] = []
    found = trio.Event()

    def tell(positions: tuple[int, ...]) -> None:
        told.append(positions)
        found.set()

    seeds = SeedList(Network.parse("10.0.0.0/24"), OWN, tell, lambda: False)
    seeds.replace(["a"])
    with trio.fail_after(20):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(seeds.keep_forever)
            await found.wait()
            nursery.cancel_scope.cancel()
    assert (told, warnings) == ([(3, 4)], [])


def test_a_numeric_name_needs_no_resolver() -> None:
    assert addresses_of("10.0.0.7", 4) == ("10.0.0.7",)
    with pytest.raises(ResolveError) as caught:
        addresses_of("10.0.0.7", 6)
    assert not caught.value.passing
