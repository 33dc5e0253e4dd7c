"""A batch system that has nodes started and ended itself, as Slurm's power saving does, for the manager.

A job that no node is free for makes it wait for one that is powered down. It takes a node for up only if its batch
daemon has started since; a node that has not come in RESUME_S is given up, one that was idle for IDLE_S is powered
down, and after DOWN_S its machine may be anything. Powered-down nodes are in no answer.
"""

from __future__ import annotations

from dataclasses import dataclass

from elastic_world import BASE, SILENT, Batch, World, now

from subord.services.batch.records import Done, Host, HostState, NewHost, Outcome, Refused, Unavailable, Wanted

RESUME_S, IDLE_S, DOWN_S = 400.0, 120.0, 30.0


@dataclass
class Saved:
    """A node of slurm.conf with State=CLOUD. `since`: of its state."""

    slots: int = 2
    wanted: Wanted = Wanted.END
    since: float = 0.0
    idle_since: float = 0.0
    address: str = ""
    is_down: bool = False
    is_drained: bool = False


class Saving(World):
    """`saved`: by name. `hides`: nodes that are powered down."""

    def __init__(self, names: tuple[str, ...] = ("c1", "c2", "c3"), *, hides: bool = True, **options: object) -> None:
        super().__init__(**options)  # type: ignore[arg-type]
        self.hides = hides
        self.saved = {name: Saved() for name in names}
        self.batch = SavingBatch

    def step(self) -> None:
        for name, each in self.saved.items():
            self._move(name, each)
        super().step()
        waiting = [task for task in self.tasks if not task.host]
        asleep = [each for each in self.saved.values() if each.wanted == Wanted.END and not each.is_down]
        asleep = [each for each in asleep if now() - each.since >= DOWN_S]
        for each in asleep[: len(waiting) - sum(each.wanted == Wanted.START for each in self.saved.values())]:
            each.wanted, each.since = Wanted.START, now()

    def _move(self, name: str, each: Saved) -> None:
        match each.wanted:
            case Wanted.START if self._has_come(name, each):
                each.wanted, each.since, each.idle_since = Wanted.STAY, now(), now()
            case Wanted.START if now() - each.since >= RESUME_S:
                each.wanted, each.since, each.is_down = Wanted.END, now(), True
            case Wanted.STAY if self.used(name):
                each.idle_since = now()
            case Wanted.STAY if now() - each.idle_since >= IDLE_S:
                each.wanted, each.since = Wanted.END, now()

    def _has_come(self, name: str, each: Saved) -> bool:
        machine = self.machines.get(name)
        is_there = machine is not None and machine.has_daemon and not machine.is_dead
        return is_there and machine.started >= each.since and machine.address == each.address  # type: ignore[union-attr]

    def is_up(self, name: str) -> bool:
        if name not in self.saved:
            return super().is_up(name)
        machine = self.machines.get(name)
        return machine is not None and machine.has_daemon and not machine.is_dead

    def is_usable(self, name: str) -> bool:
        if name not in self.saved:
            return super().is_usable(name)
        return self.is_up(name) and self.saved[name].wanted == Wanted.STAY and not self.saved[name].is_drained

    def free(self) -> dict[str, int]:
        found = super().free()
        return found | {
            name: each.slots - self.used(name) for name, each in self.saved.items() if self.is_usable(name)
        }

    def is_quiet(self) -> bool:
        """No job is left, and nothing of the nodes."""
        return not (self.tasks or self.machines or self.disk.records or self.table or self.exports)


class SavingBatch(Batch):
    world: Saving

    async def hosts(self) -> tuple[Host, ...] | Unavailable:
        found = await super().hosts()
        if isinstance(found, Unavailable):
            return found
        shown = {name: each for name, each in self.world.saved.items() if not self._is_hidden(each)}
        return (*found, *(self._saved(name, each) for name, each in shown.items()))

    def _saved(self, name: str, each: Saved) -> Host:
        used = self.world.used(name)
        is_up = each.wanted == Wanted.STAY and self.world.is_up(name)
        state, word = HostState.UP if is_up else HostState.DOWN, "DOWN+CLOUD" if each.is_down else "IDLE+CLOUD"
        return Host(
            name, each.slots, used, used, state, each.is_drained, word, 0.5, each.slots, None, wanted=each.wanted
        )

    async def add(self, host: NewHost) -> Outcome:
        if host.name not in self.world.saved:
            return await super().add(host)
        if not await self.come("batch"):
            return SILENT
        if self._is_hidden(self.world.saved[host.name]):
            return Refused("it is hidden")
        self.world.saved[host.name].address = host.address
        return Done(True)

    async def drain(self, host: str, reason: str = "") -> Outcome:
        return self._demand_other(host, "drained") or await super().drain(host, reason)

    async def undrain(self, host: str) -> Outcome:
        return self._demand_other(host, "resumed") or await super().undrain(host)

    async def remove(self, host: str) -> Outcome:
        if host not in self.world.saved:
            return await super().remove(host)
        if not await self.come("batch"):
            return SILENT
        return Refused(f"{host} has jobs") if self.world.used(host) else Done(False)

    def _demand_other(self, host: str, what: str) -> Refused | None:
        if host in self.world.saved:
            self.world.wrongs.append(f"{host} was to be {what}")
            return Refused("it is Slurm's")
        return None

    def _is_hidden(self, each: Saved) -> bool:
        return self.world.hides and each.wanted == Wanted.END and now() - max(each.since, BASE) >= DOWN_S
