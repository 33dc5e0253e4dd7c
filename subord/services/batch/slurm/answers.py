"""JSON of squeue and sinfo of Slurm 22.05 as typed values.

Input is the output of a command; output are structs with the fields that are used. A field of another type, as later
releases have, raises AnswerError.
"""

from __future__ import annotations

from typing import TypeVar

import msgspec

from subord.services.batch.faults import AnswerError, NoAnswerError


class Core(msgspec.Struct, frozen=True):
    cores: dict[str, str] = {}


class AllocatedNode(msgspec.Struct, frozen=True):
    nodename: str
    sockets: dict[str, Core] = {}

    @property
    def cores(self) -> int:
        """Those that the job has."""
        return sum(word.startswith("allocated") for socket in self.sockets.values() for word in socket.cores.values())


class Resources(msgspec.Struct, frozen=True):
    allocated_nodes: tuple[AllocatedNode, ...] = ()


class JobAnswer(msgspec.Struct, frozen=True):
    job_id: int
    job_state: str
    array_job_id: int | None = None
    """0: it is no array."""
    array_task_id: int | None = None
    array_task_string: str | None = None
    user_name: str | None = None
    user_id: int = 0
    name: str | None = None
    state_reason: str | None = None
    state_description: str | None = None
    cpus: int | None = None
    partition: str | None = None
    nodes: str | None = None
    required_nodes: str | None = None
    features: str | None = None
    tres_req_str: str | None = None
    submit_time: int = 0
    start_time: int = 0
    end_time: int = 0
    exit_code: int | None = None
    """As wait(2) tells it."""
    priority: int | None = None
    job_resources: Resources | None = None


class NodeAnswer(msgspec.Struct, frozen=True):
    name: str
    state: str
    state_flags: tuple[str, ...] = ()
    partitions: tuple[str, ...] = ()
    cpus: int = 0
    alloc_cpus: int = 0
    cpu_load: int | None = None
    """In hundredths."""
    real_memory: int | None = None
    """In MiB."""
    reason: str | None = None


class ErrorAnswer(msgspec.Struct, frozen=True):
    error: str | None = None
    description: str | None = None

    @property
    def text(self) -> str:
        return ": ".join(filter(None, (self.description, self.error))) or "no reason is given"


class AnyAnswer(msgspec.Struct, frozen=True, kw_only=True):
    errors: tuple[ErrorAnswer, ...] = ()


class JobsAnswer(AnyAnswer, frozen=True):
    jobs: tuple[JobAnswer, ...]


class NodesAnswer(AnyAnswer, frozen=True):
    nodes: tuple[NodeAnswer, ...]


Answer = TypeVar("Answer", bound=AnyAnswer)


def read(text: str, kind: type[Answer]) -> Answer:
    """Bytes of names that are no UTF-8 were replaced before. Without an answer of slurmctld, squeue and sinfo print
    an empty list beside an error, and end with 0: it is not taken for an empty queue. Raises AnswerError."""
    try:
        answer = msgspec.json.decode(text, type=kind)
    except (msgspec.DecodeError, UnicodeEncodeError) as error:
        raise AnswerError(f"the answer is not whole, or of another release: {error}") from None
    if answer.errors:
        raise NoAnswerError(answer.errors[0].text)
    return answer
