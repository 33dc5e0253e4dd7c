"""The orders of the service `elastic`, which the queue's node gives to an added node, and their results.

The queue's node signs them with the key of its configuration (elastic.key). An order names a step only: what is done
comes from the plan that an operator has signed, and from the configuration of the node. Each can be carried out
again. Invariant: where the policy of a node allows this key the service as USER alone, no plan counts that it has
signed, because plans need root.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Final

import msgspec

from subord.runtime.elastic.state import TEXT_CHARS_MAX
from subord.services.decoding import Reader, reader

USER: Final = "steps"
"""In the place of a user of the node; the agent acts as itself."""


class Step(StrEnum):
    LOOK = "look"
    """Nothing is changed: the agent answers."""
    USERS = "users"
    MOUNTS = "mounts"
    DAEMON = "daemon"
    """Start the batch daemon of the node (elastic.batch_daemon)."""
    LEAVE = "leave"
    """Unmount, and stop the batch daemon: the node is about to end."""


class Task(msgspec.Struct, frozen=True, array_like=True):
    """`version`: of the plan; a node that has an older one says so."""

    step: Step
    version: int
    master: Annotated[str, msgspec.Meta(max_length=64)]
    """Address of the queue's node."""


class Result(msgspec.Struct, frozen=True, array_like=True):
    """`fault`: whose fault it is, what is unchanged, what to do; "": it is done. `is_changed`: whether it was not as
    wanted before. `slots`: processors of the node."""

    fault: Annotated[str, msgspec.Meta(max_length=TEXT_CHARS_MAX)] = ""
    is_changed: bool = False
    slots: int = 0


decode_task: Final[Reader[Task]] = reader(Task)
decode_result: Final[Reader[Result]] = reader(Result)


def encode(message: Task | Result) -> bytes:
    return msgspec.msgpack.encode(message)
