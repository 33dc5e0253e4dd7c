"""Names of members by the resolver: bounded in time, kept, and only names that lead back."""

from __future__ import annotations

import socket
import threading
import time

import pytest
from loops import over

from subord.runtime import names
from subord.runtime.names import ResolvedNames, confirmed_name, own_name


async def test_names_are_kept() -> None:
    asked: list[str] = []

    def look(address: str) -> str | None:
        asked.append(address)
        return {"10.0.0.1": "one"}.get(address)

    known = ResolvedNames(look)
    for _ in range(3):
        assert await known.of(["10.0.0.1", "10.0.0.2", "10.0.0.1"]) == {"10.0.0.1": "one"}
    assert sorted(asked) == ["10.0.0.1", "10.0.0.2"]


async def test_a_resolver_that_hangs_delays_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(names, "WAIT_S", 1.0)  # a busy machine delays by much less
    hang = threading.Event()

    def look(address: str) -> str | None:
        if address != "10.0.0.1":
            hang.wait(30)
        return "one"

    known = ResolvedNames(look)
    addresses = [f"10.0.0.{number}" for number in range(1, 40)]
    threads = threading.active_count()  # those of earlier tests may still wait
    began = time.monotonic()
    assert await known.of(addresses) == {"10.0.0.1": "one"}
    first_s = time.monotonic() - began
    assert await known.of(addresses) == {"10.0.0.1": "one"}
    second_s = time.monotonic() - began - first_s
    begun = threading.active_count() - threads
    hang.set()
    assert begun <= names.AT_ONCE_MAX
    assert names.WAIT_S <= first_s < 10
    assert second_s < names.WAIT_S


def test_only_a_name_that_leads_back_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "getnameinfo", lambda address, _: (f"host-{address[0]}", "0"))
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_: [(0, 0, 0, "", ("10.0.0.1", 0))])
    assert confirmed_name("10.0.0.1") == "host-10.0.0.1"
    assert confirmed_name("10.0.0.2") is None
    assert confirmed_name("127.0.0.1") is None


@over(
    ("host", "name"),
    [
        ("node7", "node7"),
        ("node7.example.org", "node7.example.org"),
        ("localhost", None),
        ("localhost.localdomain", None),
        ("10.0.0.7", None),
        ("", None),
    ],
)
def test_a_host_name_that_says_nothing_does_not_count(host: str, name: str | None) -> None:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(socket, "gethostname", lambda: host)
        assert own_name() == name


async def test_the_own_address_has_the_name_of_the_host() -> None:
    """The resolver counts more; the node of a loopback address may be one of many; a name stands for one address."""
    found = {"10.0.0.1": "one"}
    known = ResolvedNames(found.get, lambda: "own")
    assert await known.of(["10.0.0.1", "10.0.0.2"], own="10.0.0.2") == {"10.0.0.1": "one", "10.0.0.2": "own"}
    assert await known.of(["10.0.0.1", "10.0.0.2"], own="10.0.0.1") == found
    assert await known.of(["127.0.0.2"], own="127.0.0.2") == {}
    assert await known.of(["10.0.0.1"], own="10.0.0.2") == found, "the host list names it"
    twice = ResolvedNames(found.get, lambda: "one")
    assert await twice.of(["10.0.0.1", "10.0.0.2"], own="10.0.0.2") == found
