"""Plays many seeds on all processors, and prints the command that replays a failed one.

Inputs are seeds, a mapping and an aim; output is a Summary with one Verdict per seed, in the order of the seeds. A
verdict depends on its seed, mapping and aim alone, not on the number of processes.
"""

from __future__ import annotations

import gc
import multiprocessing
import os
import signal
import time
import traceback
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import closing, contextmanager
from functools import partial
from itertools import islice

import msgspec

from subord.core.mapping.registry import MappingName
from subord.sim.checkers.metrics import percentile
from subord.sim.checkers.tight import BOUNDS
from subord.sim.draw.aim import ANY, Aim
from subord.sim.draw.seed import draw
from subord.sim.player import Play, Played
from subord.sim.scenario.definition import Scenario
from subord.sim.services.play import OrderPlay
from subord.sim.services.rounds import RoundPlay
from subord.sim.violation import Violation

SEEDS_AT_ONCE = 8  # of one piece, the unit of work of a process
PIECES_AHEAD = 4  # queued per process
SLOWEST_SHOWN = 3
SEEDS_MAX = 1_000_000  # all verdicts are in memory
JOBS_MAX = 256
GARBAGE_MAX = 50_000  # first threshold of gc: Python's default costs an eighth more time

TryAll = Callable[[tuple[int, ...]], "list[Verdict]"]
Player = Play | OrderPlay | RoundPlay


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """How one seed ended. `broken` is the invariant, "error" for an exception in the program, "" if all held."""

    seed: int
    nodes: int
    broken: str = ""
    text: str = ""
    events: int = 0
    healed_s: float = 0.0
    settled_s: float = 0.0
    bound_s: float = 0.0
    shares: dict[str, float] = {}
    cpu_s: float = 0.0


class Summary(msgspec.Struct, kw_only=True):
    """The verdicts of a campaign; `lasted_s` is wall-clock time."""

    verdicts: list[Verdict]
    lasted_s: float
    mapping: MappingName = "ip"
    aim: Aim = ANY

    @property
    def failed(self) -> list[Verdict]:
        return [each for each in self.verdicts if each.broken]


def try_seed(seed: int, mapping: MappingName = "ip", aim: Aim = ANY) -> Verdict:
    """Play one seed to its end. Never raises: an exception is a verdict, too."""
    return try_script(draw(seed, mapping, aim), seed, aim)


def player(script: Scenario, aim: Aim) -> Player:
    """What plays and judges a scenario."""
    if aim.rounds:
        return RoundPlay(script)
    return OrderPlay(script) if aim.services else Play(script)


def try_script(script: Scenario, seed: int, aim: Aim = ANY) -> Verdict:
    """Play a scenario with this seed, and judge it like a drawn one."""
    began = time.process_time()
    script = msgspec.structs.replace(script, seed=seed)
    nodes = len(Play(script, checked=False).positions)
    try:
        played = player(script, aim).run()
    except Violation as violation:
        return Verdict(seed=seed, nodes=nodes, broken=violation.name, text=str(violation))
    except Exception as error:  # the other seeds continue
        place = traceback.extract_tb(error.__traceback__)[-1]
        text = f"{type(error).__name__}: {error} ({place.name}, line {place.lineno})"
        return Verdict(seed=seed, nodes=nodes, broken="error", text=text)
    return _passed(seed, nodes, played, time.process_time() - began)


def _passed(seed: int, nodes: int, played: Played, cpu_s: float) -> Verdict:
    healed = played.healed
    return Verdict(
        seed=seed,
        nodes=nodes,
        events=played.events,
        healed_s=healed.whole_s,
        settled_s=healed.settled_s,
        bound_s=healed.bound_s,
        shares=played.shares,
        cpu_s=cpu_s,
    )


def _try_seeds(mapping: MappingName, aim: Aim, seeds: tuple[int, ...]) -> list[Verdict]:
    before = gc.get_threshold()
    gc.set_threshold(GARBAGE_MAX, *before[1:])
    try:
        return [try_seed(seed, mapping, aim) for seed in seeds]
    finally:
        gc.set_threshold(*before)


def run(
    seeds: Sequence[int],
    *,
    mapping: MappingName = "ip",
    aim: Aim = ANY,
    jobs: int | None = None,
    tell: Callable[[list[Verdict]], None] = lambda _news: None,
) -> Summary:
    """Play all seeds on `jobs` processes (default: one per processor); `tell` gets the verdicts of each piece.

    KeyboardInterrupt ends all processes at once. Raises BrokenProcessPool when a process was killed from outside.
    """
    began, verdicts = time.monotonic(), list[Verdict]()
    with closing(_tried(seeds, partial(_try_seeds, mapping, aim), _jobs(jobs, len(seeds)))) as tried:
        for news in tried:
            verdicts += news
            tell(news)
    return Summary(verdicts=verdicts, lasted_s=time.monotonic() - began, mapping=mapping, aim=aim)


def _jobs(wanted: int | None, seeds: int) -> int:
    """The number of processes: no more than there are pieces."""
    return max(1, min(wanted or len(os.sched_getaffinity(0)), -(-seeds // SEEDS_AT_ONCE), JOBS_MAX))


def _tried(seeds: Sequence[int], try_all: TryAll, jobs: int) -> Generator[list[Verdict], None, None]:
    """Verdicts piece by piece, in the order of the seeds for any number of processes."""
    pieces = _pieces(iter(seeds))
    if jobs == 1:
        yield from map(try_all, pieces)
        return
    with _workers(jobs) as pool:
        waiting = [pool.submit(try_all, piece) for piece in islice(pieces, jobs * PIECES_AHEAD)]
        while waiting:
            yield waiting.pop(0).result()
            waiting += [pool.submit(try_all, piece) for piece in islice(pieces, 1)]


@contextmanager
def _workers(jobs: int) -> Iterator[ProcessPoolExecutor]:
    """Processes that are killed with this one, even within a seed."""
    others = multiprocessing.active_children()
    pool = ProcessPoolExecutor(jobs, initializer=_ignore_interrupt)
    try:
        yield pool
    except BaseException:
        for each in multiprocessing.active_children():
            if each not in others:
                each.kill()
        raise
    finally:
        pool.shutdown(cancel_futures=True)


def _ignore_interrupt() -> None:
    """A terminal sends Ctrl-C to all its processes; the main process ends the others."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _pieces(seeds: Iterator[int]) -> Iterator[tuple[int, ...]]:
    while piece := tuple(islice(seeds, SEEDS_AT_ONCE)):
        yield piece


def replay(seed: int, mapping: MappingName = "ip", aim: Aim = ANY) -> str:
    """The command that replays a seed."""
    which = "" if mapping == "ip" else f" --mapping {mapping}"
    return f"subord simulate --seed {seed}{which}{aim.options} --trace"


def report(summary: Summary) -> list[str]:
    """Lines of text: each failure with its command, and the totals."""
    lines = []
    for each in summary.failed:
        lines += [
            f"seed {each.seed} ({each.nodes} nodes): {each.text}",
            f"  {replay(each.seed, summary.mapping, summary.aim)}",
        ]
    return lines + totals(summary)


def totals(summary: Summary) -> list[str]:
    """Lines of text: the number of failures, the cost, and the time of healing."""
    passed = [each for each in summary.verdicts if not each.broken]
    counts = Counter(each.broken for each in summary.failed)
    broken = ", ".join(f"{name} {count}" for name, count in sorted(counts.items())) or "none"
    lines = [f"{len(summary.verdicts)} seeds in {summary.lasted_s:.0f} s; failed: {broken}"]
    if passed:
        events, nodes = sum(each.events for each in passed), [each.nodes for each in passed]
        shares = sorted(each.settled_s / each.bound_s for each in passed if each.bound_s)
        lines.append(f"{min(nodes)} to {max(nodes)} nodes, {events} events checked")
        slowest = sorted(passed, key=lambda each: -each.cpu_s)[:SLOWEST_SHOWN]
        lines.append("slowest: " + ", ".join(f"seed {each.seed} {each.cpu_s:.1f} s" for each in slowest))
        lines.append(f"share of its bound that the last change of place took: {_told(shares)}")
        lines += [f"share of the tight bound {name}: {_told(used)}" for name, used in tight_shares(passed).items()]
    return lines


def _told(shares: Sequence[float]) -> str:
    if not shares:
        return "judges no seed"
    return ", ".join(f"{name} {100 * value:.0f} %" for name, value in spread(shares).items()) + f", of {len(shares)}"


def tight_shares(passed: Sequence[Verdict]) -> dict[str, list[float]]:
    """By the name of each tight bound, ascending: the share of it that each judged seed used."""
    return {name: sorted(each.shares[name] for each in passed if name in each.shares) for name in BOUNDS}


def spread(values: Sequence[float]) -> dict[str, float]:
    """Percentiles of ascending values, by name; 0 if there are none."""
    names = {"median": 0.5, "99 of 100": 0.99, "most": 1.0}
    return {name: percentile(values, share) or 0.0 for name, share in names.items()}
