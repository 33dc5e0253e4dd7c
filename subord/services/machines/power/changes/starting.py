"""Starting and stopping a machine. Runs in threads; raises libvirtError and RefusedError."""

from __future__ import annotations

from subord.services.machines.power import reading
from subord.services.machines.power.changes.common import RefusedError, Server, stage_words
from subord.services.machines.power.records import Done, Found, MayStart, Stage, State


def start(server: Server, name: str, may_start: MayStart) -> Done:
    domain = server.domain(name)
    if domain is None:
        raise RefusedError(f"there is no machine {name} on this server; nothing was started")
    found = server.ours(domain)
    if found.state == State.ON:
        return Done(is_changed=False, machine=name)
    if found.state != State.OFF:
        raise RefusedError(paused_words(found, "started"))
    if found.stage != Stage.WHOLE:
        raise RefusedError(f"{stage_words(found)}; it was not started")
    if reason := may_start(reading.hardware(server.connection), server.machines(), found):
        raise RefusedError(reason)
    domain.create()
    return Done(is_changed=True, machine=name)


def state_to_stop(server: Server, name: str) -> State:
    """OFF also if there is no such machine."""
    domain = server.domain(name)
    if domain is None:
        return State.OFF
    found = server.ours(domain)
    if found.state not in (State.ON, State.OFF):
        raise RefusedError(paused_words(found, "stopped"))
    return found.state


def shut_down(server: Server, name: str) -> None:
    domain = server.domain(name)
    if domain is not None and server.ours(domain).state == State.ON:
        domain.shutdown()


def destroy(server: Server, name: str) -> None:
    """Only if it is still on: it may have been paused by hand meanwhile."""
    domain = server.domain(name)
    if domain is not None and server.ours(domain).state == State.ON:
        domain.destroy()


def paused_words(found: Found, what: str) -> str:
    return (
        f"{found.name} is {found.word}, by hand or by libvirt; it was not {what}, and keeps its memory: resume it, "
        "`virsh resume`, or end it, `virsh destroy`"
    )
