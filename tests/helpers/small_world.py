"""A few nodes in the simulator with additions for tests: injected messages, delivery rules, and queries.

A test may set `lossy` (True: this message is lost), `copies` (how often it arrives) and `delay_of` (seconds).
`after_each` is called after every event; `last` is then the position that handled it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from subord.core.address.network import Network
from subord.core.events import Event, Notice
from subord.core.messages import Message
from subord.core.settings import Settings
from subord.core.snapshots import snapshot
from subord.core.view import Place, Position, Snapshot
from subord.sim.world.world import World
from subord.wire.codec import encode


class SmallWorld(World):
    """Nodes by position; no disk."""

    def __init__(self, settings: Settings, seed: int = 1, delay_s: float = 0.0002) -> None:
        super().__init__(settings, seed)
        self.notices: list[tuple[float, Position, Notice]] = []
        self.last: Position = 0
        self.lossy: Callable[[Position, Position, Message], bool] = lambda _s, _t, _m: False
        self.copies: Callable[[Message], int] = lambda _m: 1
        self.delay_of: Callable[[Message], float] = lambda _m: delay_s * self.chance.uniform(0.5, 1.5)
        self.after_each: Callable[[SmallWorld], None] = lambda _world: None
        self.fate = self._fate
        self.watcher = self
        self.on_notice = lambda position, notice: self.notices.append((self.now, position, notice))

    @classmethod
    def empty(cls, fanout: int, network: str = "10.0.0.0/16", *, seed: int = 1, **options: object) -> SmallWorld:
        """A world before any start. `options` are fields of Settings; guest slots are `fanout` unless given."""
        fields: dict[str, object] = {"guest_slots": fanout, "fanout": fanout, **options}
        return cls(Settings(network=Network.parse(network), **fields), seed)  # type: ignore[arg-type]

    @classmethod
    def dense(cls, size: int, fanout: int, network: str = "10.0.0.0/16", **options: object) -> SmallWorld:
        """Positions 1 to `size`, all started at the same time."""
        world = cls.empty(fanout, network, **options)
        world.start_all(range(1, size + 1))
        return world

    def incarnation_of(self, boot: int) -> int:
        """Round numbers, so that a test can name a former incarnation."""
        return 1000 * boot

    # -- control -----------------------------------------------------------------------------------

    def start_all(self, positions: Iterable[Position], gap_s: float = 0.0, known: tuple[Position, ...] = ()) -> None:
        """Start in the given order, `gap_s` apart. All hosts are up from the beginning."""
        order = list(positions)
        self.hosts |= set(order)
        for position in order:
            self.start(position, known)
            self.run(gap_s)

    def tell(self, source: Position, target: Position, message: Message) -> None:
        """Deliver a message now with the address of `source`, which did not send it."""
        self.deliver(source, target, encode(message))

    def run_until(self, condition: Callable[[], bool], within_s: float) -> float:
        """Run until `condition` holds; returns the seconds it took."""
        began = self.now
        while not condition():
            assert self.now - began < within_s, f"not within {within_s} s: {self.leaders()}"
            self.run(0.01)
        return self.now - began

    # -- hooks of the simulator -----------------------------------------------------------------------

    def _fate(self, source: Position, target: Position, message: Message) -> Sequence[float]:
        if self.lossy(source, target, message):
            return ()
        return [self.delay_of(message) for _ in range(self.copies(message))]

    def before(self, _world: World, _position: Position, _event: Event) -> Any:
        return None

    def after_event(self, _world: World, position: Position, *_: object) -> None:
        self.last = position
        self.after_each(self)

    # -- reading ----------------------------------------------------------------------------------------

    def leaders(self) -> dict[Position, Position]:
        """The leader of each node; 0 for roots."""
        return {position: self.leader_of(position) for position in sorted(self.nodes)}

    def roots(self) -> list[Position]:
        return [position for position, leader in self.leaders().items() if leader == 0]

    def places(self) -> Counter[Place | None]:
        return Counter(node.place for node in self.nodes.values())

    def whole(self) -> bool:
        """Whether one root lists exactly the live nodes and every node has a place."""
        roots = self.roots()
        if len(roots) != 1 or any(node.place is None for node in self.nodes.values()):
            return False
        roster = self.nodes[roots[0]].roster
        return {p for p in roster.rows if roster.is_live(p)} == set(self.nodes)

    def changes(self) -> int:
        return sum(node.leader_changes for node in self.nodes.values())

    def moves(self) -> dict[Position, int]:
        """Leader changes of each node so far."""
        return {position: node.leader_changes for position, node in sorted(self.nodes.items())}

    def shown(self, position: Position) -> Snapshot:
        return snapshot(self.nodes[position], self.now)

    def noticed(self, kind: type[Notice], position: Position | None = None) -> list[Notice]:
        """The notices of one kind so far, of one node or of all."""
        return [n for _, p, n in self.notices if isinstance(n, kind) and position in (None, p)]
