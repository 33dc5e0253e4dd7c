"""What a job of this cluster becomes in the other one, by the tables of the plan. Pure.

Inputs are the plan and what the job needs; output is what it needs there, or Stays with the reason for which it
cannot go. Invariant: a soft request never keeps a job here. That a job came from another cluster, the cell says.
"""

from __future__ import annotations

import re
from posixpath import normpath, relpath
from typing import Final, NamedTuple

import msgspec
from msgspec.structs import replace

from subord.services.transfer.jobs import LOGIN, SPEC_BYTES_MAX, Files, Spec, key_of
from subord.services.transfer.plan import Plan, Request, TransferQueue

Pairs = tuple[tuple[str, str], ...]
_decoder: Final = msgspec.msgpack.Decoder(Spec)
NOWHERE: Final = "/dev/null"
TRUE: Final = frozenset({"1", "t", "true", "y", "yes"})


class Stays(NamedTuple):
    """`reason`: why this job cannot run in the other cluster. It goes back, and does not leave again."""

    reason: str


class _StaysError(Exception):
    pass


def mapped(plan: Plan, queue: str, spec: Spec) -> Spec | Stays:
    """For a job that is in this transfer queue."""
    there = plan.queue(queue)
    if there is None:
        return Stays(f"{queue} is no transfer queue of the plan")
    if key_of(spec.name) is not None:
        return Stays("it came from another cluster, and does not go on")
    try:
        found = replace(
            spec,
            requests=_requests(plan, there, spec.requests),
            wishes=_wishes(plan, spec.wishes),
            parallel=_parallel(plan, spec),
            queue=there.queue,
            project="",
            files=_files(there, spec),
        )
    except _StaysError as error:
        return Stays(str(error))
    body = msgspec.msgpack.encode(found)
    if len(body) > SPEC_BYTES_MAX:
        return Stays(f"its script, arguments and environment have {len(body)} of at most {SPEC_BYTES_MAX} bytes")
    try:
        return _decoder.decode(body)
    except msgspec.ValidationError as error:  # the other side would heed no message with it
        return Stays(f"it has more than another cluster can be told of ({error})")


def local_user(plan: Plan, theirs: str) -> str | Stays:
    """As which user of this cluster a job of the other one runs."""
    if re.fullmatch(LOGIN, theirs, re.ASCII) is None:
        return Stays("its user has a name that no account of the other cluster can have")
    ours = next((each.ours for each in plan.users if each.theirs == theirs), theirs if plan.same_users else "")
    if ours == "root":
        return Stays("jobs of root do not run in the other cluster")
    return ours or Stays(f"the user {theirs} has no account in the other cluster")


def is_taken_as(plan: Plan, ours: str) -> bool:
    """Whether a job of the other cluster may run as this user of this one."""
    if any(each.ours == ours for each in plan.users):
        return True
    return local_user(plan, ours) == ours


def _requests(plan: Plan, there: TransferQueue, asked: Pairs) -> Pairs:
    table = {each.name: each for each in plan.requests}
    found = dict[str, str]()
    for name, value in asked:
        if name == plan.opt_out:
            if value.lower() not in TRUE:
                raise _StaysError(f"it asks for {name}={value}")
            continue
        pair = _request(table.get(name), name, value, passes=plan.passes_others)
        if pair is not None:
            found[pair[0]] = pair[1]
    return tuple((found | dict(there.requests)).items())


def _request(line: Request | None, name: str, value: str, *, passes: bool) -> tuple[str, str] | None:
    if line is None:
        if not passes:
            raise _StaysError(f"the other cluster has nothing for its request {name}={value}")
        return name, value
    if not line.to:
        return None
    values = dict(line.values)
    if line.is_closed and value not in values:
        raise _StaysError(f"the other cluster has nothing for the value of its request {name}={value}")
    return line.to, values.get(value, value)


def _wishes(plan: Plan, asked: Pairs) -> Pairs:
    """Those that mean nothing there are left out."""
    table = {each.name: each for each in plan.requests}
    found = list[tuple[str, str]]()
    for name, value in asked:
        try:
            pair = None if name == plan.opt_out else _request(table.get(name), name, value, passes=plan.passes_others)
        except _StaysError:
            continue
        if pair is not None:
            found.append(pair)
    return tuple(found)


def _parallel(plan: Plan, spec: Spec) -> str:
    if not spec.parallel:
        return ""
    to = next((each.to for each in plan.parallels if each.name == spec.parallel), "")
    if not to and not plan.passes_others:
        raise _StaysError(f"the other cluster has nothing for its parallel environment {spec.parallel}")
    return to or spec.parallel


def _files(there: TransferQueue, spec: Spec) -> Files | None:
    """Those of a job whose files are brought along are still to be packed."""
    if not there.brings_files:
        return None
    if not spec.directory.startswith("/"):
        raise _StaysError("it has no working directory of its own whose files could be brought: submit it with -cwd")
    for path in (spec.output, spec.errors):
        if path not in ("", NOWHERE) and not is_below(path, spec.directory):
            raise _StaysError(f"its output {path[:100]} is not in its working directory, and would not come back")
    return Files()


def is_below(path: str, directory: str) -> bool:
    """By their names alone."""
    return normpath(path).startswith(f"{normpath(directory).rstrip('/')}/")


def relocated(spec: Spec, directory: str) -> Spec:
    """What the batch system is told of a job whose files were brought to this directory of this cluster."""
    paths = (moved(path, spec.directory, directory) for path in (spec.output, spec.errors))
    output, errors = paths
    return replace(spec, directory=directory, output=output, errors=errors)


def moved(path: str, before: str, directory: str) -> str:
    """A path below the working directory, in another one."""
    if not is_below(path, before):
        return path if path in ("", NOWHERE) else ""
    return f"{directory}/{relpath(normpath(path), normpath(before))}"
