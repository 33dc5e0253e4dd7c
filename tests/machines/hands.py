"""What people change by hand in a simulated world, past the service."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from subord.services.machines.model import Capacity, Machine, Need, State
from tests.machines.checks import Watch
from tests.machines.world import Computer, World

STOPS_S = 40
"""Between a decision and its effect."""


def _any(world: World, random: Random, *, state: State, is_ours: bool = True) -> tuple[Computer, Machine] | None:
    found = [
        (server, machine)
        for server in world.servers.values()
        for machine in server.machines.values()
        if machine.state == state and machine.doing is None and not machine.given_to and not machine.came_from
        if bool(machine.type) is is_ours
    ]
    return random.choice(found) if found else None


def start(world: World, watch: Watch, random: Random) -> None:
    """Also where there is no room."""
    if found := _any(world, random, state=State.OFF):
        server, machine = found
        watch.disturbed[machine.name] = world.now
        world.power_on(server, machine.name)


def pause(world: World, watch: Watch, random: Random) -> None:
    if found := _any(world, random, state=State.ON):
        server, machine = found
        watch.disturbed[machine.name] = world.now
        world.change(server, machine.name, state=State.PAUSED)


def resume(world: World, watch: Watch, random: Random) -> None:
    if found := _any(world, random, state=State.PAUSED):
        server, machine = found
        watch.disturbed[machine.name] = world.now
        world.change(server, machine.name, state=State.ON)


def stop(world: World, watch: Watch, random: Random) -> None:
    """With its jobs."""
    if found := _any(world, random, state=State.ON):
        server, machine = found
        watch.disturbed[machine.name] = world.now
        world.power_off(server, machine.name, by_us=False)


def delete(world: World, watch: Watch, random: Random) -> None:
    if found := _any(world, random, state=State.OFF):
        server, machine = found
        watch.disturbed[machine.name] = world.now
        del server.machines[machine.name]
        world.images.pop(machine.name, None)


def lower(world: World, watch: Watch, random: Random) -> None:
    """Below what is used, sometimes."""
    server = random.choice(list(world.servers.values()))
    part = random.choice((0.3, 0.6, 0.9))
    watch.disturbed[server.name] = world.now
    server.capacity = Capacity(*(int(each * part) for each in server.capacity))
    world.check_room(server)


def foreign(world: World, watch: Watch, random: Random) -> None:
    """A machine that is not ours is started."""
    server = random.choice(list(world.servers.values()))
    watch.disturbed[server.name] = world.now
    need = Need(random.randint(1, 8), 2048, 0)
    world.add(server.name, Machine(f"foreign-{world.now}", need, State.ON, since=float(world.now)))
    world.check_room(server)


def foreign_ends(world: World, watch: Watch, random: Random) -> None:
    if found := _any(world, random, state=State.ON, is_ours=False):
        server, machine = found
        del server.machines[machine.name]
        world.check_room(server)


def close(world: World, watch: Watch, random: Random) -> None:
    if found := _any(world, random, state=State.ON):
        watch.disturbed[found[1].name] = world.now
        world.hosts[found[1].name].is_open = False


def open_(world: World, watch: Watch, random: Random) -> None:
    """Not one that is about to stop: its server knows of no jobs."""
    found = _any(world, random, state=State.ON)
    if found and world.now - world.stopping_since.get(found[1].name, -STOPS_S) >= STOPS_S:
        watch.disturbed[found[1].name] = world.now
        world.hosts[found[1].name].is_open = True
        world.opened_at[found[1].name] = world.now


def drain(world: World, watch: Watch, random: Random) -> None:
    server = random.choice(list(world.servers.values()))
    server.is_drained = not server.is_drained


def cancel(world: World, watch: Watch, random: Random) -> None:
    """Jobs that wait are deleted."""
    world.cancel(world.waiting[random.randint(0, len(world.waiting)) :])


def _by_hand(what: Callable[[World, Watch, Random], None]) -> Callable[[World, Watch, Random], None]:
    def done(world: World, watch: Watch, random: Random) -> None:
        world.by_hand = True
        what(world, watch, random)
        world.by_hand = False

    return done


HANDS = {
    f"hand-{what.__name__.rstrip('_')}": _by_hand(what)
    for what in (start, pause, resume, stop, delete, lower, foreign, foreign_ends, close, open_, drain, cancel)
}
