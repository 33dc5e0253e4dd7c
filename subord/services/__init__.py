"""The services that ride on the tree, one folder each: the registry.

A service is a package `subord.services.NAME` with a module `core`, whose SERVICE says what a node answers and what
the issuer makes of all answers (contract.py), and a module `command`, its command. docs/services.md adds one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

NAMES: Final = (
    "ping",
    "errors",
    "keys",
    "exec",
    "files",
    "metrics",
    "account",
    "shares",
    "hosts",
    "elastic",
    "machines",
    "transfer",
)
"""One name for each service; `subord NAME` is its command, `/v1/NAME` its path."""


class Traits(NamedTuple):
    """What a daemon knows of a service that it has not loaded. `reads`: the node itself answers orders. `acts`: the
    agent acts on signed ones. `records`: the service checks records of the ledger."""

    reads: bool = True
    acts: bool = False
    records: bool = False


LATE: Final[Mapping[str, Traits]] = {
    "exec": Traits(reads=False, acts=True),
    "files": Traits(reads=False, acts=True),
    "account": Traits(records=True),
    "shares": Traits(),
    "hosts": Traits(),
    "elastic": Traits(acts=True),
    "machines": Traits(acts=True),
    "transfer": Traits(),
}
"""Services that a daemon loads with the first order or request for them: together they take 2 MiB. The others are
loaded at its start: one with a report must be, and those that tell what is wrong answer also if the disk hangs."""
WORDS: Final = {"keys": "key"}
"""Services whose command has another name."""
METHODS: Final = {
    ("transfer", each): "subord.services.transfer.methods.main"
    for each in ("start", "suspend", "resume", "terminate", "sensor")
}
"""Actions that a batch system runs for each job, and their module, whose `main` takes the words of the action: they
start without a parser. The command of the service has their help."""
FAULTS: Final = {("transfer", "start"): 100}
"""The exit status of such an action if it cannot do its work, for one whose other statuses are those of a job. With
100 Grid Engine puts the job into the error state."""
