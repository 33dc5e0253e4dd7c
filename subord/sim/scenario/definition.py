"""The scenario: a cluster, the steps that happen to it, and what must hold; one value for the simulator and the lab.

`read` turns the text of a TOML file into a checked Scenario, and `write` turns it back. A Scenario that passed
`check` names only nodes that exist and stays within the limits below.

    title = "The root dies with its first three successors"
    cluster = { nodes = 30, fanout = 2 }
    steps = [
      { do = "start" },
      { do = "expect", within_s = 20 },
      { do = "kill", nodes = "1-4" },
      { do = "expect", within_s = 10 },
    ]

`nodes` of a step is a selector: positions and ranges ("1-4,9"), and the words `all`, `root` and `level N`. The
docstrings and comments below are the tables of docs/scenarios.md.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Annotated, Any, Literal, TypeAlias, get_args

import msgspec

from subord.config.source import cut
from subord.core.address.network import Network, NetworkError
from subord.core.address.numbering import numbering
from subord.core.mapping.registry import MappingName
from subord.core.settings import NumberingName, TimingName
from subord.core.view import Position
from subord.sim.scenario import validate
from subord.sim.scenario.lasting import (
    Flap,
    Flip,
    Forget,
    Image,
    Lasting,
    Lie,
    Link,
    Pose,
    Refit,
    Release,
    Replay,
    Restore,
    Rotate,
    Seize,
    SetBack,
    Settle,
    Twin,
)
from subord.sim.scenario.ordering import Answered, Order
from subord.sim.scenario.selection import NODES_MAX, ScenarioError, Selection, folded, listed
from subord.sim.scenario.step_types import LIKE, SELECTOR_MAX, Seconds, Selector, Share, StepBase

# Re-exported for users of scenarios:
__all__ = ["LIKE", "NODES_MAX", "SELECTOR_MAX", "ScenarioError", "Settle", "Twin", "folded"]
__all__ += ["Flap", "Flip", "Forget", "Image", "Lie", "Link", "Refit", "Release", "Replay", "Restore"]
__all__ += ["Answered", "Order", "Pose", "Rotate", "Seize", "SetBack"]

STEPS_MAX = 10_000
NODES_TIMES_STEPS_MAX = 10_000_000
FILE_BYTES_MAX = 1 << 20
TOO_LONG = f"a scenario has at most {FILE_BYTES_MAX} characters: this is another file"
BABBLE_MAX = 100_000  # datagrams of one step
SEED_MAX, SEED_NODES_MAX = 10**18 - 1, 64

Way = Literal["kill", "leave", "vanish"]
Identities = Literal["none", "pinned", "strict"]


class Cluster(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """The nodes and their settings. `positions` replaces `nodes` when the positions are not 1 to `nodes`."""

    nodes: Annotated[int, msgspec.Meta(ge=1, le=NODES_MAX)] = 0  # positions 1 to this; or give `positions`
    positions: str = ""  # such as "3-9,12"
    network: str = "10.0.0.0/16"  # block or list of addresses, in the order of positions
    fanout: Annotated[int, msgspec.Meta(ge=2, le=1024)] = 2
    guest_slots: Annotated[int, msgspec.Meta(ge=1, le=1024)] | None = None  # by default as many as the fan-out
    numbering: NumberingName = "complete"
    timing: TimingName = "lan"  # preset of all durations
    disk: bool = True  # nodes keep their neighbourhood over a restart
    seeds: str = ""  # positions of the seeds of every node, such as "3,9"
    announce: bool = False  # roots announce themselves by multicast
    mapping: MappingName = "ip"  # which nodes may lead a node
    sealed: bool = False  # datagrams are sealed with a key (in the lab always, except with `--insecure`)
    identities: Identities = "none"  # proves the sender; `strict`: the keys of all nodes are known from the start
    bare: str = ""  # with identities: positions of nodes without, as of releases before 0.3
    register: bool = False  # nodes remember the members, which is judged at the end (in the lab always)


class Start(StepBase, frozen=True, tag="start"):
    """Starts the daemons of `nodes`; running ones are left alone."""

    nodes: Selector = "all"
    order: Literal["ascending", "reverse", "random"] = "ascending"
    gap_s: Seconds = 0.0


class Kill(StepBase, frozen=True, tag="kill"):
    """The process dies (kill -9): the kernel closes its streams, and the host answers that no process listens."""

    nodes: Selector


class Restart(StepBase, frozen=True, tag="restart"):
    """The process dies and starts again `down_s` later; nodes that do not run stay off."""

    nodes: Selector
    down_s: Seconds = 0.1


class Vanish(StepBase, frozen=True, tag="vanish"):
    """The host dies with its daemon, silently."""

    nodes: Selector


class Leave(StepBase, frozen=True, tag="leave"):
    """SIGTERM: the daemon says goodbye and ends."""

    nodes: Selector


class Reuse(StepBase, frozen=True, tag="reuse"):
    """The host dies, and another host takes its address at once, with another hardware address and an empty disk."""

    nodes: Selector


class Pause(StepBase, frozen=True, tag="pause"):
    """SIGSTOP: arriving datagrams wait."""

    nodes: Selector


class Resume(StepBase, frozen=True, tag="resume"):
    """SIGCONT: stopped processes continue."""

    nodes: Selector = "all"


class Slow(StepBase, frozen=True, tag="slow"):
    """For `for_s` the process alternates between `stopped_s` stopped and `running_s` running, as on an overloaded
    host.

    Takes no time.
    """

    nodes: Selector
    stopped_s: Seconds
    running_s: Annotated[float, msgspec.Meta(ge=0.01, le=86_400)]
    for_s: Seconds


class Jump(StepBase, frozen=True, tag="jump"):
    """The clock of the node jumps forward, as after a suspended virtual machine. Simulator only."""

    nodes: Selector
    seconds: Seconds


class Hangup(StepBase, frozen=True, tag="hangup"):
    """The streams along the edges of these nodes break, although both ends live. Simulator only."""

    nodes: Selector


class Cut(StepBase, frozen=True, tag="cut"):
    """The cable is pulled; the process continues."""

    nodes: Selector


class Block(StepBase, frozen=True, tag="block"):
    """Drops what `source` sends to `target`, in this direction only.

    `tcp` leaves a stream half open and does not affect beats.
    """

    source: Selector
    target: Selector
    protocol: Literal["all", "udp", "tcp"] = "all"


class Partition(StepBase, frozen=True, tag="partition"):
    """Only nodes of one group reach each other; all nodes without a group form one more."""

    groups: Annotated[tuple[Selector, ...], msgspec.Meta(min_length=1)]


class Weather(StepBase, frozen=True, tag="weather"):
    """Loss, delay, reordering and duplication of all datagrams from now on; zeros end them.

    Simulator only: all but `loss`.
    """

    loss: Share = 0.0
    delay_s: Seconds = 0.0
    jitter_s: Seconds = 0.0  # up to this much more delay, which also reorders
    doubled: Share = 0.0


class Mend(StepBase, frozen=True, tag="mend"):
    """Reconnects cables and ends blocks, partitions and weather."""


class Babble(StepBase, frozen=True, tag="babble"):
    """`source` sends datagrams to `target` for `for_s`, bypassing its daemon. Takes no time.

    `terms` proposes with another fan-out; `version` uses another wire version.
    """

    source: Selector
    target: Selector
    what: Literal["malformed", "oversized", "version", "terms"]
    per_s: Annotated[float, msgspec.Meta(gt=0, le=10_000)] = 100.0
    for_s: Seconds = 1.0


class Churn(StepBase, frozen=True, tag="churn"):
    """For `for_s` random nodes die and return `down_s` later, `percent_per_min` of all nodes a minute.

    Takes `for_s` and `down_s`.
    """

    nodes: Selector = "all"
    percent_per_min: Annotated[float, msgspec.Meta(gt=0, le=10_000)] = 10.0
    for_s: Seconds = 60.0
    down_s: Seconds = 2.0
    ways: Annotated[tuple[Way, ...], msgspec.Meta(min_length=1)] = ("kill", "leave")


class Perform(StepBase, frozen=True, tag="perform"):
    """From now on these nodes complete `jobs` per unit of time, each multiplied by a random factor up to `spread`.

    Simulator only.
    """

    nodes: Selector
    jobs: Annotated[float, msgspec.Meta(gt=0, le=1e12)]
    spread: Annotated[float, msgspec.Meta(ge=1, le=1e6)] = 1.0


class Dwell(StepBase, frozen=True, tag="dwell"):
    """From now on these nodes are at `site`; each step between two sites adds 10 ms to a datagram. Simulator only."""

    nodes: Selector
    site: Annotated[int, msgspec.Meta(ge=0, le=99)]


class Pass(StepBase, frozen=True, tag="pass"):
    """Time passes."""

    s: Seconds


class Expect(StepBase, frozen=True, tag="expect"):
    """Within `within_s` each part of the network is one tree whose root lists exactly the live nodes.

    Since the previous expectation: only `moved` have changed their leader; all together at most `moves_max` times; 99
    % of nodes whose leader died had a new one within `attached_p99_s`. Restarts do not count as moves.
    """

    within_s: Seconds
    moved: Selector | None = None
    moves_max: Annotated[int, msgspec.Meta(ge=0)] | None = None
    attached_p99_s: Seconds | None = None
    home: bool = True  # also, each node whose computed leader lives stands below it


Step: TypeAlias = (
    Start
    | Kill
    | Restart
    | Vanish
    | Leave
    | Reuse
    | Pause
    | Resume
    | Slow
    | Jump
    | Hangup
    | Cut
    | Block
    | Partition
    | Weather
    | Mend
    | Babble
    | Churn
    | Perform
    | Dwell
    | Pass
    | Expect
    | Order
    | Answered
    | Lasting
)

STEPS: dict[str, type[StepBase]] = {str(kind.__struct_config__.tag): kind for kind in get_args(Step)}
"""The values of `do`, in the order of the source."""


class Scenario(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A cluster and what happens to it."""

    title: Annotated[str, msgspec.Meta(min_length=1, max_length=200)]  # printed first
    about: str = ""  # origin and purpose
    seed: Annotated[int, msgspec.Meta(ge=0, le=SEED_MAX)] = 1  # decides everything random
    cluster: Annotated[Cluster, msgspec.Meta(extra={"words": "a table such as { nodes = 30, fanout = 2 }"})]
    steps: Annotated[
        tuple[Step, ...],
        msgspec.Meta(
            max_length=STEPS_MAX, extra={"words": f'a list of 1 to {STEPS_MAX} tables such as {{ do = "start" }}'}
        ),
    ]


def positions_of(cluster: Cluster) -> tuple[Position, ...]:
    """The positions of the cluster's nodes, ascending. Raises ScenarioError."""
    return selection_of(cluster).positions


@lru_cache(maxsize=2)  # asked once per step, and slow for a large cluster
def selection_of(cluster: Cluster) -> Selection:
    if bool(cluster.nodes) == bool(cluster.positions):
        raise ScenarioError("cluster: give either `nodes` or `positions`")
    if cluster.nodes > NODES_MAX:
        raise ScenarioError(f"cluster.nodes: {cluster.nodes} nodes, a scenario has at most {NODES_MAX}")
    found = range(1, cluster.nodes + 1) if cluster.nodes else listed(cluster.positions)
    return Selection(found, numbering(cluster.numbering, cluster.fanout))


def seeds_of(cluster: Cluster) -> tuple[Position, ...]:
    """The positions that every node has as seeds. Raises ScenarioError."""
    if not cluster.seeds:
        return ()
    found = tuple(listed(cluster.seeds))
    if len(found) > SEED_NODES_MAX or not set(found) <= set(positions_of(cluster)):
        raise ScenarioError(f"cluster.seeds: name up to {SEED_NODES_MAX} nodes of the cluster")
    return found


def bare_of(cluster: Cluster) -> tuple[Position, ...]:
    """The positions of nodes without identity. Raises ScenarioError."""
    found = tuple(listed(cluster.bare)) if cluster.bare else ()
    if found and (cluster.identities != "pinned" or not set(found) <= set(positions_of(cluster))):
        raise ScenarioError('cluster.bare: name nodes of the cluster, and write `identities = "pinned"`')
    return found


def network_of(cluster: Cluster) -> Network:
    """The network, which must hold every position. Raises ScenarioError."""
    try:
        network = Network.parse(cluster.network)
    except NetworkError as reason:
        raise ScenarioError(f"cluster.network: {reason}") from None
    highest = positions_of(cluster)[-1]
    if highest > network.size:
        held = f"{cut(cluster.network)} has {network.size} positions"
        raise ScenarioError(f"cluster.network: {held}, {highest} is asked for; write a larger network")
    return network


def select(
    selector: Selector, cluster: Cluster, *, among: Iterable[Position], root: Position | None = None
) -> tuple[Position, ...]:
    """Those of `among` that the selector names, ascending; `root` is the present root. Raises ScenarioError.

    A position outside the cluster is an error; one that is only missing in `among` is not.
    """
    selection = selection_of(cluster)
    named = selection.named(selector, root)
    if among is selection.positions:
        return named
    members = set(among)
    return tuple(position for position in named if position in members)


def read(text: str) -> Scenario:
    """The scenario in the text of a file. Raises ScenarioError."""
    if len(text) > FILE_BYTES_MAX:
        raise ScenarioError(TOO_LONG)
    document = validate.parsed(text)
    if "cluster" in document:
        validate.check(document["cluster"], Cluster, "cluster: ")
    steps = document.get("steps")
    for number, step in enumerate(steps if isinstance(steps, list) else (), 1):
        _fit_step(number, step)
    validate.check(document, Scenario, "")
    scenario = msgspec.convert(document, Scenario)
    check(scenario)
    return scenario


def _fit_step(number: int, step: Any) -> None:
    if not isinstance(step, dict):
        raise ScenarioError(f'step {number} must be a table such as {{ do = "start" }}, not {validate.shown(step)}')
    name = step.get("do")
    if not isinstance(name, str) or name not in STEPS:
        what = f"no step {validate.shown(name)}" if "do" in step else "no key `do`"
        raise ScenarioError(f"step {number}: {what}; steps: {', '.join(STEPS)}")
    validate.check(
        {key: value for key, value in step.items() if key != "do"}, STEPS[name], f"step {number} ({name}): "
    )


def check(scenario: Scenario) -> None:
    """Raises ScenarioError when a step names what does not exist, or when a limit is exceeded."""
    nodes, steps = len(positions_of(scenario.cluster)), len(scenario.steps)
    network_of(scenario.cluster)
    bare_of(scenario.cluster)
    for key, text in (("title", scenario.title), ("about", scenario.about.replace("\n", "").replace("\t", ""))):
        if not text.isprintable():
            raise ScenarioError(f"`{key}` has control characters; take them out")
    if not scenario.steps:
        raise ScenarioError("no steps: no node is started")
    if nodes * steps > NODES_TIMES_STEPS_MAX:
        raise ScenarioError(f"{nodes} nodes times {steps} steps: at most {NODES_TIMES_STEPS_MAX} together")
    started = False
    for number, step in enumerate(scenario.steps, 1):
        started = started or isinstance(step, Start)
        try:
            _check_step(step, selection_of(scenario.cluster), started)
            if isinstance(step, Rotate) and not scenario.cluster.sealed:
                raise ScenarioError("the cluster has no keys; write `sealed = true`")
            if isinstance(step, Forget) and not scenario.cluster.register:
                raise ScenarioError("the nodes remember nothing; write `register = true`")
        except ScenarioError as reason:
            raise ScenarioError(f"step {number} ({step.__struct_config__.tag}): {reason}") from None


def _check_step(step: Step, selection: Selection, started: bool) -> None:
    if isinstance(step, Expect | Settle | Order) and not started:
        raise ScenarioError("no node is started yet; `start` comes first")
    for name in ("nodes", "source", "target", "moved", "missing"):
        selector = getattr(step, name, None)
        if selector is not None:
            selection.count(selector)
    for number, group in enumerate(getattr(step, "groups", ()), 1):
        try:
            selection.count(group)
        except ScenarioError as reason:
            raise ScenarioError(f"group {number}: {reason}") from None
    if isinstance(step, Babble):
        sources, targets = selection.count(step.source), selection.count(step.target)
        if sources * targets * step.per_s * step.for_s > BABBLE_MAX:
            product = f"{sources} sources times {targets} targets times {step.per_s:g}/s times {step.for_s:g} s"
            raise ScenarioError(f"{product}: at most {BABBLE_MAX} datagrams")
