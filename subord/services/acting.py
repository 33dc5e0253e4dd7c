"""What a service with effects gets when it acts: `async def act(payload: bytes, context: Context) -> bytes`.

The function stands in `agent.py` of the service's folder, which only the agent imports, when the first order comes.
It is called once for each order that was accepted; its result has at most bounds.RESULT_BYTES_MAX bytes. An exception
is logged, and the outcome is `failed`. When the time is over it is cancelled, and the outcome is `expired`.

With `LEASED: Final = True` in the module it is also cancelled (trio.Cancelled) when the order is cancelled, or when
no issuer has waited for it for bounds.LEASE_S; the outcomes are `cancelled` and `lease over`. It ends what it has
started before it lets trio.Cancelled pass; what needs `await` there stands in a shielded scope with a deadline.
Without LEASED it goes on, whether an issuer waits or not.

With a function `async def follow(handed: Handed, context: Context) -> bytes` the service carries out the documents of
the kind that has its name. It is called for each document that the daemon hands over, also for one that does not
count, and again until what it returns, which the daemon's side of the service reads, says that it is settled.

With `async def attend(handed: Handed, context: Context, talk: Talk) -> str` it carries out a document with the daemon
at its side as long as the document counts, over the connection that has brought it. It is called for documents that
count; what it returns is a cause, "" if it has followed the document. It is cancelled when the agent is to end, and
then puts back what must not stay in a shielded scope with a deadline.
"""

from __future__ import annotations

import importlib.util
import logging
import os
from collections.abc import Awaitable, Callable
from typing import NamedTuple, Protocol

from subord import services
from subord.config.schema import ElasticConfig, MachinesConfig, SharesConfig, TransferConfig
from subord.core.address.network import Network
from subord.core.carriage.documents import Document
from subord.core.carriage.orders import Cluster

logger = logging.getLogger("subord")


class Handed(NamedTuple):
    """A document as the daemon hands it over, with the verdict of the agent. `cause`: why it does not count; "": it
    does. `is_revoked`: whether an operator, by principal and fingerprint, does not count any more. `position`: of
    this node. `sources`: nodes that may have its content, as the daemon says. `cluster`: for which it is signed."""

    document: Document
    cause: str
    principal: str
    fingerprint: str
    is_revoked: Callable[[str, str], bool]
    position: int
    sources: tuple[int, ...] = ()
    cluster: Cluster = ("", "")


class Context(NamedTuple):
    """`user`: as which the service must act, as the operator has signed and the policy allows. `left_s`: the time
    that is left. `node`: the address of this node. `directory`: where the agent keeps its files. `socket`: that of
    the daemon. `accounts`: whether commands get records (agent.account_exec). `shares`: the classes of this node.
    `elastic`: its part in a cluster that grows and shrinks. `cluster`, `is_revoked`: as in Handed.
    `network`: of the cluster. `machines`: its part in a cluster with virtual machines. `transfer`: in a cluster whose
    jobs cross."""

    user: str
    principal: str
    tag: bytes
    left_s: float
    node: str = ""
    directory: str = "."
    socket: str = ""
    accounts: bool = False
    shares: SharesConfig = SharesConfig()
    elastic: ElasticConfig = ElasticConfig()
    cluster: Cluster = ("", "")
    is_revoked: Callable[[str, str], bool] = lambda _principal, _fingerprint: False
    network: Network | None = None
    machines: MachinesConfig = MachinesConfig()
    transfer: TransferConfig = TransferConfig()


class Talk(Protocol):
    """The frames of a connection of the daemon."""

    async def next(self) -> bytes | None:
        """What the daemon says; None: it has ended."""

    async def send(self, data: bytes) -> None:
        """Without effect if the daemon has ended."""


Act = Callable[[bytes, Context], Awaitable[bytes]]
Follow = Callable[[Handed, Context], Awaitable[bytes]]
Attend = Callable[[Handed, Context, Talk], Awaitable[str]]


def has_effects(name: str) -> bool:
    """Whether a service is registered and has an `agent.py`."""
    return name in services.NAMES and importlib.util.find_spec(f"subord.services.{name}.agent") is not None


def carries_out_orders(name: str) -> bool:
    """Whether the effects of a service are those of orders, and not of documents alone; imports its module."""
    return has_effects(name) and hasattr(importlib.import_module(f"subord.services.{name}.agent"), "act")


def is_leased(name: str) -> bool:
    """Whether the service acts only while an issuer waits; imports its module."""
    return bool(getattr(importlib.import_module(f"subord.services.{name}.agent"), "LEASED", False))


def act_of(name: str) -> Act:
    """The function of a service with effects; imports its module."""
    found: Act = importlib.import_module(f"subord.services.{name}.agent").act
    return found


def follow_of(name: str) -> Follow | None:
    """The function of a service that carries out documents of its own kind; None: it has none. Imports its module."""
    found: Follow | None = getattr(importlib.import_module(f"subord.services.{name}.agent"), "follow", None)
    return found


def attend_of(name: str) -> Attend | None:
    """The function of a service that carries out documents of its own kind beside the daemon; None: it has none.
    Imports its module."""
    found: Attend | None = getattr(importlib.import_module(f"subord.services.{name}.agent"), "attend", None)
    return found


def recover_all(directory: str) -> None:
    """Have each service undo or finish what an earlier process of the agent has left: those that have a folder of
    their name in `directory` that is not empty, and a function `recover`. One that fails is logged, and does not take
    the others away. It blocks."""
    for name in services.NAMES:
        try:
            if os.listdir(os.path.join(directory, name)) and has_effects(name):
                _recover(name, directory)
        except FileNotFoundError:
            continue
        except Exception:
            logger.exception("what an earlier process of the agent has left of the service %s stays as it is", name)


def _recover(name: str, directory: str) -> None:
    recover = getattr(importlib.import_module(f"subord.services.{name}.agent"), "recover", None)
    if recover is not None:
        recover(directory)
