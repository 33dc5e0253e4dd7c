"""What happens to a cluster, in which order, and what must hold: one value, for the simulator and for the lab.

Intuition: a screenplay. It says who enters, who falls down and what the audience must see in the end; whether
puppets play it (the simulator) or real actors (the lab) is none of its business. A file, or a seed, is turned into
the same value, and every value can be written as a file again.

    title = "The root dies with its first three successors"
    cluster = { nodes = 30, fanout = 2 }
    steps = [
      { do = "start" },
      { do = "expect", within_s = 20 },
      { do = "kill", nodes = "1-4" },
      { do = "expect", within_s = 10 },
    ]

`nodes` of a step is a selector: positions and ranges ("1-4,9"), and the words `all`, `root` and `level N`.
docs/scenarios.md is made from the docstrings and comments below.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Annotated, Any, Literal, TypeAlias, get_args

import msgspec

from subord.config.source import cut
from subord.core.address.network import Network, NetworkError
from subord.core.address.numbering import numbering
from subord.core.state.settings import MappingName, NumberingName, TimingName
from subord.core.state.view import Position
from subord.sim.scenario import validate
from subord.sim.scenario.lasting import (
    Flap,
    Flip,
    Image,
    Lasting,
    Lie,
    Link,
    Refit,
    Release,
    Replay,
    Restore,
    Rotate,
    SetBack,
    Settle,
    Twin,
)
from subord.sim.scenario.selection import NODES_MAX, ScenarioError, Selection, folded, listed
from subord.sim.scenario.step_types import LIKE, SELECTOR_MAX, Seconds, Selector, Share, StepBase

# Of other modules, for users of scenarios:
__all__ = ["LIKE", "NODES_MAX", "SELECTOR_MAX", "ScenarioError", "folded"]
__all__ += ["Flap", "Flip", "Image", "Link", "Replay", "Restore", "SetBack", "Settle"]
__all__ += ["Lie", "Refit", "Release", "Rotate", "Twin"]

STEPS_MAX = 10_000
NODES_TIMES_STEPS_MAX = 10_000_000
FILE_BYTES_MAX = 1 << 20
TOO_LONG = f"a scenario has at most {FILE_BYTES_MAX} characters: this is another file"
BABBLE_MAX = 100_000  # datagrams of one step
SEED_MAX = 10**18 - 1
SEED_NODES_MAX = 64

Way = Literal["kill", "leave", "vanish"]


class Cluster(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """The nodes and their settings. `positions` stands in the place of `nodes` when they are not 1 to `nodes`."""

    nodes: Annotated[int, msgspec.Meta(ge=1, le=NODES_MAX)] = 0  # positions 1 to this; or give `positions`
    positions: str = ""  # such as "3-9,12"
    network: str = "10.0.0.0/16"  # block or list of addresses, in the order of positions
    fanout: Annotated[int, msgspec.Meta(ge=2, le=1024)] = 2
    guest_slots: Annotated[int, msgspec.Meta(ge=1, le=1024)] | None = None  # not given: as many as the fan-out
    numbering: NumberingName = "complete"
    timing: TimingName = "lan"  # preset of all durations
    disk: bool = True  # nodes remember their neighbourhood over a restart
    seeds: str = ""  # positions that every node has in its configuration, such as "3,9"
    announce: bool = False  # roots announce themselves by multicast
    mapping: MappingName = "ip"  # who may lead whom
    sealed: bool = False  # datagrams are sealed with a key (in the lab always, unless `--insecure`)


class Start(StepBase, frozen=True, tag="start"):
    """Daemons start; those of `nodes` that run already are left alone."""

    nodes: Selector = "all"
    order: Literal["ascending", "reverse", "random"] = "ascending"
    gap_s: Seconds = 0.0


class Kill(StepBase, frozen=True, tag="kill"):
    """The process dies (kill -9): the kernel closes its streams, the host answers that nobody listens."""

    nodes: Selector


class Restart(StepBase, frozen=True, tag="restart"):
    """The process dies and starts again `down_s` later; one that does not run stays as it is."""

    nodes: Selector
    down_s: Seconds = 0.1


class Vanish(StepBase, frozen=True, tag="vanish"):
    """The host dies with its daemon: nobody says anything."""

    nodes: Selector


class Leave(StepBase, frozen=True, tag="leave"):
    """SIGTERM: the daemon says goodbye and ends."""

    nodes: Selector


class Reuse(StepBase, frozen=True, tag="reuse"):
    """The host dies, and at once another one has its address: without its disk and hardware address."""

    nodes: Selector


class Pause(StepBase, frozen=True, tag="pause"):
    """SIGSTOP: time goes on, and what arrives waits."""

    nodes: Selector


class Resume(StepBase, frozen=True, tag="resume"):
    """SIGCONT: who was stopped goes on."""

    nodes: Selector = "all"


class Slow(StepBase, frozen=True, tag="slow"):
    """For `for_s` the process runs only `running_s` after every `stopped_s`: an overloaded host. Takes no time."""

    nodes: Selector
    stopped_s: Seconds
    running_s: Annotated[float, msgspec.Meta(ge=0.01, le=86_400)]
    for_s: Seconds


class Jump(StepBase, frozen=True, tag="jump"):
    """The clock of the node leaps forward, as after a stopped virtual machine. Simulator only."""

    nodes: Selector
    seconds: Seconds


class Hangup(StepBase, frozen=True, tag="hangup"):
    """The streams along the edges of these nodes break, though both ends live. Simulator only."""

    nodes: Selector


class Cut(StepBase, frozen=True, tag="cut"):
    """The cable is pulled; the process runs on."""

    nodes: Selector


class Block(StepBase, frozen=True, tag="block"):
    """What `source` sends to `target` is lost, one way; "tcp" leaves a stream half open, and spares beats."""

    source: Selector
    target: Selector
    protocol: Literal["all", "udp", "tcp"] = "all"


class Partition(StepBase, frozen=True, tag="partition"):
    """Only nodes of one group reach each other; who is in no group is in one with the others who are in none."""

    groups: Annotated[tuple[Selector, ...], msgspec.Meta(min_length=1)]


class Weather(StepBase, frozen=True, tag="weather"):
    """What happens to datagrams from now on; zeros are fair weather. Simulator only: all but `loss`."""

    loss: Share = 0.0
    delay_s: Seconds = 0.0
    jitter_s: Seconds = 0.0  # up to this much later: also what puts them out of order
    doubled: Share = 0.0


class Mend(StepBase, frozen=True, tag="mend"):
    """Cables are back, blocks and partitions gone, the weather is fair."""


class Babble(StepBase, frozen=True, tag="babble"):
    """`source` throws datagrams at `target` for `for_s`, without its daemon's knowledge. Takes no time.

    `terms` proposes with another fan-out; `version` speaks another wire version.
    """

    source: Selector
    target: Selector
    what: Literal["malformed", "oversized", "version", "terms"]
    per_s: Annotated[float, msgspec.Meta(gt=0, le=10_000)] = 100.0
    for_s: Seconds = 1.0


class Churn(StepBase, frozen=True, tag="churn"):
    """For `for_s` nodes die and come back `down_s` later, chosen by chance, so many of a hundred a minute.

    Takes this time, and `down_s` more until the last is back.
    """

    nodes: Selector = "all"
    percent_per_min: Annotated[float, msgspec.Meta(gt=0, le=10_000)] = 10.0
    for_s: Seconds = 60.0
    down_s: Seconds = 2.0
    ways: Annotated[tuple[Way, ...], msgspec.Meta(min_length=1)] = ("kill", "leave")


class Perform(StepBase, frozen=True, tag="perform"):
    """These nodes complete `jobs` in a unit of time from now on, each up to `spread` times as many by chance.

    Simulator only.
    """

    nodes: Selector
    jobs: Annotated[float, msgspec.Meta(gt=0, le=1e12)]
    spread: Annotated[float, msgspec.Meta(ge=1, le=1e6)] = 1.0


class Dwell(StepBase, frozen=True, tag="dwell"):
    """These nodes are at `site` from now on: a datagram takes 10 ms more a step between two. Simulator only."""

    nodes: Selector
    site: Annotated[int, msgspec.Meta(ge=0, le=99)]


class Pass(StepBase, frozen=True, tag="pass"):
    """Time passes."""

    s: Seconds


class Expect(StepBase, frozen=True, tag="expect"):
    """Within `within_s` every part of the network is one tree with one root that knows exactly the living.

    Counted since the expectation before this one: `moved` are the only nodes that may have changed their leader,
    `moves_max` how often all together, and of those whose leader died each had a leader again `attached_p99_s`
    after that. Restarted nodes do not count as moved.
    """

    within_s: Seconds
    moved: Selector | None = None
    moves_max: Annotated[int, msgspec.Meta(ge=0)] | None = None
    attached_p99_s: Seconds | None = None
    home: bool = True  # and each node whose computed leader lives stands below it


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
    | Lasting
)


STEPS: dict[str, type[StepBase]] = {str(kind.__struct_config__.tag): kind for kind in get_args(Step)}
"""What may stand behind `do`, in the order of the source."""


class Scenario(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A cluster and what happens to it. `seed` decides everything that the steps leave to chance."""

    title: Annotated[str, msgspec.Meta(min_length=1, max_length=200)]  # printed first
    about: str = ""  # where it comes from, and what it shows
    seed: Annotated[int, msgspec.Meta(ge=0, le=SEED_MAX)] = 1  # of everything that is left to chance
    cluster: Annotated[Cluster, msgspec.Meta(extra={"words": "a table such as { nodes = 30, fanout = 2 }"})]
    steps: Annotated[
        tuple[Step, ...],
        msgspec.Meta(
            max_length=STEPS_MAX, extra={"words": f'a list of 1 to {STEPS_MAX} tables such as {{ do = "start" }}'}
        ),
    ]


def positions_of(cluster: Cluster) -> tuple[Position, ...]:
    """The positions of the cluster's nodes, ascending. Raises ScenarioError."""
    return cast_of(cluster).positions


@lru_cache(maxsize=2)  # a step asks as often as it happens, and a large cast is dear
def cast_of(cluster: Cluster) -> Selection:
    """The nodes of a cluster, for many questions. Raises ScenarioError."""
    if bool(cluster.nodes) == bool(cluster.positions):
        raise ScenarioError("cluster: give either `nodes` or `positions`")
    if cluster.nodes > NODES_MAX:
        raise ScenarioError(f"cluster.nodes: {cluster.nodes} nodes, a scenario has at most {NODES_MAX}")
    found = range(1, cluster.nodes + 1) if cluster.nodes else listed(cluster.positions)
    return Selection(found, numbering(cluster.numbering, cluster.fanout))


def seeds_of(cluster: Cluster) -> tuple[Position, ...]:
    """The positions that every node is told of. Raises ScenarioError."""
    if not cluster.seeds:
        return ()
    found = tuple(listed(cluster.seeds))
    if len(found) > SEED_NODES_MAX or not set(found) <= set(positions_of(cluster)):
        raise ScenarioError(f"cluster.seeds: name up to {SEED_NODES_MAX} nodes of the cluster")
    return found


def network_of(cluster: Cluster) -> Network:
    """The network, which has a place for every node. Raises ScenarioError."""
    try:
        network = Network.parse(cluster.network)
    except NetworkError as reason:
        raise ScenarioError(f"cluster.network: {reason}") from None
    highest = positions_of(cluster)[-1]
    if highest > network.size:
        there = f"{cut(cluster.network)} has {network.size} positions"
        raise ScenarioError(f"cluster.network: {there}, {highest} is asked for; write a larger network")
    return network


def select(
    selector: Selector, cluster: Cluster, *, among: Iterable[Position], root: Position | None = None
) -> tuple[Position, ...]:
    """Those of `among` that the selector names, ascending; `root` is who is root now. Raises ScenarioError.

    Naming a node that the cluster does not have is a mistake; naming one that is not in `among` is not.
    """
    cast = cast_of(cluster)
    named = cast.named(selector, root)
    if among is cast.positions:
        return named
    members = set(among)
    return tuple(position for position in named if position in members)


def read(text: str) -> Scenario:
    """The scenario that a file's text describes. Raises ScenarioError."""
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
    """Raises ScenarioError when a step names what does not exist, or the whole would take too much."""
    nodes, steps = len(positions_of(scenario.cluster)), len(scenario.steps)
    network_of(scenario.cluster)
    for key, text in (("title", scenario.title), ("about", scenario.about.replace("\n", "").replace("\t", ""))):
        if not text.isprintable():
            raise ScenarioError(f"`{key}` has control characters; take them out")
    if not scenario.steps:
        raise ScenarioError("no steps: nobody has been started")
    if nodes * steps > NODES_TIMES_STEPS_MAX:
        raise ScenarioError(f"{nodes} nodes times {steps} steps: at most {NODES_TIMES_STEPS_MAX} together")
    started = False
    for number, step in enumerate(scenario.steps, 1):
        started = started or isinstance(step, Start)
        try:
            _check_step(step, cast_of(scenario.cluster), started)
            if isinstance(step, Rotate) and not scenario.cluster.sealed:
                raise ScenarioError("the cluster has no keys; write `sealed = true`")
        except ScenarioError as reason:
            raise ScenarioError(f"step {number} ({step.__struct_config__.tag}): {reason}") from None


def _check_step(step: Step, cast: Selection, started: bool) -> None:
    if isinstance(step, Expect | Settle) and not started:
        raise ScenarioError("nobody has been started; `start` comes first")
    for name in ("nodes", "source", "target", "moved"):
        selector = getattr(step, name, None)
        if selector is not None:
            cast.count(selector)
    for number, group in enumerate(getattr(step, "groups", ()), 1):
        try:
            cast.count(group)
        except ScenarioError as reason:
            raise ScenarioError(f"group {number}: {reason}") from None
    if isinstance(step, Babble):
        sources, targets = cast.count(step.source), cast.count(step.target)
        if sources * targets * step.per_s * step.for_s > BABBLE_MAX:
            told = f"{sources} sources times {targets} targets times {step.per_s:g}/s times {step.for_s:g} s"
            raise ScenarioError(f"{told}: at most {BABBLE_MAX} datagrams")


def write(scenario: Scenario) -> str:
    """The text of a file that `read` turns into the same scenario."""
    document = msgspec.to_builtins(scenario)
    cluster, steps = document.pop("cluster"), document.pop("steps")
    lines = [f"{key} = {_toml(value)}" for key, value in document.items()]
    lines += [f"cluster = {_toml(cluster)}", "steps = [", *(f"  {_toml(step)}," for step in steps), "]"]
    return "\n".join(lines) + "\n"


def _toml(value: object) -> str:
    """A value as TOML, tables inline. JSON's strings are a subset of TOML's basic strings."""
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {_toml(each)}" for key, each in value.items()) + " }"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_toml, value)) + "]"
    if isinstance(value, float):
        return repr(value)
    return msgspec.json.encode(value).decode()
