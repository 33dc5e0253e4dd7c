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

`nodes` of a step is a list of positions and ranges ("1-4,9"), and may hold the words `all`, `root` and `level N`.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Iterator
from typing import Annotated, Literal, TypeAlias

import msgspec

from subord.core.numbering import numbering
from subord.core.settings import NumberingName, TimingName
from subord.core.view import Position

STEPS_MAX = 10_000
NODES_MAX = 1_000_000
FILE_BYTES_MAX = 1 << 20

Selector = Annotated[str, msgspec.Meta(min_length=1, max_length=20_000)]
Seconds = Annotated[float, msgspec.Meta(ge=0, le=86_400)]
Share = Annotated[float, msgspec.Meta(ge=0, le=1)]
Way = Literal["kill", "leave", "vanish"]


class ScenarioError(Exception):
    """The scenario is wrong; the text is one sentence for whoever wrote it. Nothing was started."""


class Cluster(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """The nodes and their settings. `positions` stands in the place of `nodes` when they are not 1 to `nodes`."""

    nodes: Annotated[int, msgspec.Meta(ge=1, le=NODES_MAX)] = 0
    positions: str = ""
    network: str = "10.0.0.0/16"
    fanout: Annotated[int, msgspec.Meta(ge=2, le=1024)] = 2
    guest_slots: Annotated[int, msgspec.Meta(ge=1, le=1024)] | None = None  # None: as many as the fan-out
    numbering: NumberingName = "complete"
    timing: TimingName = "lan"
    disk: bool = True  # nodes remember their neighbourhood over a restart


class _Step(
    msgspec.Struct, frozen=True, kw_only=True, tag_field="do", forbid_unknown_fields=True, omit_defaults=True
):
    """Something that happens; the steps follow each other without a pause but those that `pass` time or `expect`."""


class Start(_Step, frozen=True, tag="start"):
    """Daemons start; those of `nodes` that run already are left alone."""

    nodes: Selector = "all"
    order: Literal["ascending", "reverse", "random"] = "ascending"
    gap_s: Seconds = 0.0


class Kill(_Step, frozen=True, tag="kill"):
    """The process dies (kill -9): the kernel closes its streams, the host answers that nobody listens."""

    nodes: Selector


class Restart(_Step, frozen=True, tag="restart"):
    """The process dies and starts again `down_s` later; one that does not run stays as it is."""

    nodes: Selector
    down_s: Seconds = 0.1


class Vanish(_Step, frozen=True, tag="vanish"):
    """The host dies with its daemon: nobody says anything."""

    nodes: Selector


class Leave(_Step, frozen=True, tag="leave"):
    """SIGTERM: the daemon says goodbye and ends."""

    nodes: Selector


class Reuse(_Step, frozen=True, tag="reuse"):
    """The host dies, and at once another one has its address: without its disk and hardware address."""

    nodes: Selector


class Pause(_Step, frozen=True, tag="pause"):
    """SIGSTOP: time goes on, and what arrives waits."""

    nodes: Selector


class Resume(_Step, frozen=True, tag="resume"):
    """SIGCONT."""

    nodes: Selector = "all"


class Slow(_Step, frozen=True, tag="slow"):
    """For `for_s` the process runs only `running_s` after every `stopped_s`: an overloaded host. Takes no time."""

    nodes: Selector
    stopped_s: Seconds
    running_s: Seconds
    for_s: Seconds


class Jump(_Step, frozen=True, tag="jump"):
    """The clock of the node leaps forward, as after a stopped virtual machine. Simulator only."""

    nodes: Selector
    seconds: Seconds


class Hangup(_Step, frozen=True, tag="hangup"):
    """The streams along the edges of these nodes break, though both ends live. Simulator only."""

    nodes: Selector


class Cut(_Step, frozen=True, tag="cut"):
    """The cable is pulled; the process runs on."""

    nodes: Selector


class Block(_Step, frozen=True, tag="block"):
    """What `source` sends to `target` is lost, one way; "tcp" leaves a stream half open, and spares beats."""

    source: Selector
    target: Selector
    protocol: Literal["all", "udp", "tcp"] = "all"


class Partition(_Step, frozen=True, tag="partition"):
    """Only nodes of one group reach each other; who is in no group is in one with the others who are in none."""

    groups: tuple[Selector, ...]


class Weather(_Step, frozen=True, tag="weather"):
    """What happens to datagrams from now on; zeros are fair weather. The lab can only lose them."""

    loss: Share = 0.0
    delay_s: Seconds = 0.0
    jitter_s: Seconds = 0.0  # up to this much later: also what puts them out of order
    doubled: Share = 0.0


class Mend(_Step, frozen=True, tag="mend"):
    """Cables are back, blocks and partitions gone, the weather is fair."""


class Babble(_Step, frozen=True, tag="babble"):
    """`source` throws datagrams at `target` for `for_s`, without its daemon's knowledge. Takes no time.

    `terms` proposes with another fan-out; `version` speaks another wire version.
    """

    source: Selector
    target: Selector
    what: Literal["malformed", "oversized", "version", "terms"]
    per_s: Annotated[float, msgspec.Meta(gt=0, le=10_000)] = 100.0
    for_s: Seconds = 1.0


class Churn(_Step, frozen=True, tag="churn"):
    """For `for_s` nodes die and come back `down_s` later, chosen by chance, so many of a hundred a minute.

    Takes this time, and `down_s` more until the last is back.
    """

    nodes: Selector = "all"
    percent_per_min: Annotated[float, msgspec.Meta(gt=0, le=10_000)] = 10.0
    for_s: Seconds = 60.0
    down_s: Seconds = 2.0
    ways: tuple[Way, ...] = ("kill", "leave")


class Pass(_Step, frozen=True, tag="pass"):
    """Time passes."""

    s: Seconds


class Expect(_Step, frozen=True, tag="expect"):
    """Within `within_s` every part of the network is one tree with one root that knows exactly the living.

    Counted since the expectation before this one: `moved` are the only nodes that may have changed their leader,
    `moves_max` how often all together, and of those whose leader died each had a leader again `attached_p99_s`
    after that. Restarted nodes do not count as moved.
    """

    within_s: Seconds
    moved: Selector | None = None
    moves_max: int | None = None
    attached_p99_s: Seconds | None = None
    home: bool = True  # and whoever has a living computed leader stands below it


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
    | Pass
    | Expect
)


class Scenario(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A cluster and what happens to it. `seed` decides everything that the steps leave to chance."""

    title: str
    about: str = ""  # where it comes from, and what it shows
    seed: int = 1
    cluster: Cluster
    steps: Annotated[tuple[Step, ...], msgspec.Meta(max_length=STEPS_MAX)]


def positions_of(cluster: Cluster) -> tuple[Position, ...]:
    """The positions of the cluster's nodes, ascending. Raises ScenarioError."""
    if bool(cluster.nodes) == bool(cluster.positions):
        raise ScenarioError("cluster: give either `nodes` or `positions`")
    if cluster.nodes:
        return tuple(range(1, cluster.nodes + 1))
    found = set(_numbers(cluster.positions))
    if len(found) > NODES_MAX:
        raise ScenarioError(f"cluster.positions: more than {NODES_MAX} nodes")
    return tuple(sorted(found))


def select(
    selector: Selector, cluster: Cluster, *, among: Iterable[Position], root: Position | None = None
) -> tuple[Position, ...]:
    """Those of `among` that the selector names, ascending; `root` is who is root now. Raises ScenarioError.

    Naming a node that the cluster does not have is a mistake; naming one that is not in `among` is not.
    """

    rule = numbering(cluster.numbering, cluster.fanout)
    cast = positions_of(cluster)
    chosen: set[Position] = set()
    for word in (each.strip() for each in selector.split(",")):
        if word == "all":
            chosen.update(cast)
        elif word == "root":
            chosen.update(() if root is None else (root,))
        elif level := re.fullmatch(r"level (\d+)", word):
            chosen.update(p for p in cast if rule.level_and_offset(p)[0] == int(level[1]))
        else:
            named = set(_numbers(word))
            if not named <= set(cast):
                raise ScenarioError(f"`{selector}` names {min(named - set(cast))}, which is no node of the cluster")
            chosen |= named
    return tuple(sorted(chosen & set(among)))


def _numbers(text: str) -> Iterator[Position]:
    for word in text.split(","):
        ends = re.fullmatch(r"\s*([1-9]\d{0,17})(?:-([1-9]\d{0,17}))?\s*", word)
        if not ends:
            raise ScenarioError(f"`{text}` is no list of positions such as 1-4,9")
        first, last = int(ends[1]), int(ends[2] or ends[1])
        if last < first or last - first >= NODES_MAX:
            raise ScenarioError(f"`{word.strip()}` is no range of positions: give the lower end first")
        yield from range(first, last + 1)


def folded(positions: Iterable[Position]) -> str:
    """Positions as `1-4,9`; the inverse of what a selector reads."""
    ranges: list[list[int]] = []
    for position in sorted(positions):
        if ranges and position == ranges[-1][1] + 1:
            ranges[-1][1] = position
        else:
            ranges.append([position, position])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in ranges)


def read(text: str) -> Scenario:
    """The scenario that a file's text describes. Raises ScenarioError."""
    if len(text) > FILE_BYTES_MAX:
        raise ScenarioError(f"a scenario has at most {FILE_BYTES_MAX} characters: this is another file")
    try:
        scenario = msgspec.convert(tomllib.loads(text), Scenario)
    except tomllib.TOMLDecodeError as reason:
        raise ScenarioError(f"no TOML: {reason}") from None
    except msgspec.ValidationError as reason:
        raise ScenarioError(str(reason).replace("`$.", "`").replace("$[...]", "a key")) from None
    check(scenario)
    return scenario


def check(scenario: Scenario) -> None:
    """Raises ScenarioError when a step names what does not exist."""
    cast = positions_of(scenario.cluster)
    for number, step in enumerate(scenario.steps, 1):
        for name in ("nodes", "source", "target", "moved"):
            selector = getattr(step, name, None)
            if selector is not None:
                try:
                    select(selector, scenario.cluster, among=cast)
                except ScenarioError as reason:
                    raise ScenarioError(f"step {number}: {reason}") from None
        for group in getattr(step, "groups", ()):
            select(group, scenario.cluster, among=cast)


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
