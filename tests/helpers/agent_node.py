"""The agent of one node behind its socket, in the process of a test, and the daemon's side of it.

Inputs are the policy, what each operator may sign, and what the agent is configured with; outputs are a server that
runs, and connections to it. Invariant: a stopped server leaves no socket and no open journal, so that another one can
begin with the same records.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from math import inf
from pathlib import Path
from typing import Any, Generic, TypeVar

import trio
from fake_operators import CLUSTER, FakeVerifier
from signed_orders import NOW_MS

from subord.agent.journal import Journal
from subord.agent.judge import Judge
from subord.agent.revoked import RevokedList
from subord.agent.serving import Server
from subord.api.http.sockets import bind_unix
from subord.core.carriage.documents import Document
from subord.runtime.counters import Counters
from subord.runtime.orders.agent import Agent, Done
from subord.services.acting import act_of, carries_out_orders, has_effects
from tests.services.test_files_sets import POSITION

Talk = TypeVar("Talk")


class Operators(FakeVerifier):
    """The judge looks at the list of revoked names itself."""

    def revoke(self, names: Any) -> None:
        """It changes no power."""


class AgentNode(Generic[Talk]):
    """One node: its agent, which keeps records in `directory`, and the daemon, which talks to it by `talk`.

    `powers`: the operators, and the namespaces that they may sign for.
    """

    judging: dict[str, Any] = {"offers": carries_out_orders, "follows": has_effects}  # noqa: RUF012 - never changed
    """What else the judge is given."""

    def __init__(
        self,
        top: Path,
        directory: Path,
        *,
        policy: str,
        powers: dict[str, str],
        talk: Callable[[trio.SocketStream], Talk],
    ) -> None:
        self.top = top
        self.directory = directory
        self.cluster = CLUSTER
        self.revoked: Document | None = None
        self.powers = powers
        (top / "policy.toml").write_text(policy)
        self._socket = top / "agent.sock"
        self.agent = Agent(str(self._socket), Counters(), lambda: self.revoked)
        self._talk = talk

    @property
    def configured(self) -> dict[str, Any]:
        """With what the server is made."""
        raise NotImplementedError

    async def prepare(self) -> None:
        """What the process of the agent does before it serves."""

    def judge(self) -> Judge:
        operators: Any = Operators(self.powers)
        return Judge(
            self.cluster,
            POSITION,
            verifier=operators,
            revoked=RevokedList(str(self.directory), operators, self.cluster, wall=lambda: NOW_MS / 1000),
            policy_path=str(self.top / "policy.toml"),
            **self.judging,
        )

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Server]:
        """A life of the agent."""
        await self.prepare()
        judge = self.judge()
        journal = Journal(str(self.directory))
        server = Server(judge, journal, act_of, {os.geteuid()}, inf, **self.configured)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(server.run, bind_unix(self._socket))
            yield server
            nursery.cancel_scope.cancel()
        self._socket.unlink()
        journal.close()

    @asynccontextmanager
    async def following(self, document: Document) -> AsyncIterator[Talk]:
        """The daemon has given the document to the agent."""
        stream = await self.agent.attend(document)
        assert stream is not None
        async with stream:
            yield self._talk(stream)


ANY_TIME = {"offers": lambda _: True, "follows": lambda _: True, "wall": lambda: NOW_MS / 1000}
"""`judging` where the time of orders counts, and every service."""


async def all_told(talk: Any) -> list[Any]:
    """All that the agent says, with the end."""
    found = list[Any]()
    while not found or not (found[-1] is None or isinstance(found[-1], Done)):
        found.append(await talk.next())
    return found
