"""Jobs in the transfer queues of two trees, and what an observer outside of both sees of them.

Each job writes a line to a file of its own when it begins, another one before it ends, and ends with a status of its
own. The observer compares these files, and the accounting of both cells, with what was submitted. Invariant: nothing
here asks an agent.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Final, NamedTuple

from netlab.elastic import files, gridengine, host
from netlab.elastic.hosted import HOME, USER
from netlab.errors import LabError
from netlab.transfer.counted import MARK, Most, most_of
from netlab.transfer.pair import Pair
from netlab.transfer.trees import QUEUE, TreeLab

RUNS: Final = f"{HOME}/runs"
AGAIN: Final = 99
"""The status of a job that waits again."""
LOST: Final = (19, 25)
"""Failures of a run whose host has died, and of one that the batch system has queued again."""
BURST_MAX: Final = 100
"""Submitted by one command, which has a minute."""
LOOK_S: Final = 0.5


class Run(NamedTuple):
    """A line of the accounting. `failed`: by the batch system; 100: a signal has ended the job."""

    queue: str
    host: str
    job: str
    account: str
    failed: int
    status: int
    task: int
    submitted_at: int
    began_at: int
    ended_at: int

    @property
    def is_end(self) -> bool:
        """The job is not started again."""
        return self.status != AGAIN and self.failed not in LOST


def runs_of(tree: TreeLab) -> list[Run]:
    """What the accounting of its cell has."""
    return list(_runs(outside(tree, f"{gridengine.TOP}/top/default/common/accounting")))


def _report_of(tree: TreeLab) -> list[str]:
    file = outside(tree, gridengine.REPORT)
    return file.read_text(errors="replace").splitlines() if file.exists() else []


def outside(tree: TreeLab, path: str) -> Path:
    """Where a file that hosts share is for this process."""
    return tree.path / files.SHARED / Path(path).relative_to(host.SHARED)


def _script(tag: str, lasts_s: float, status: int) -> str:
    return f"echo begins >>{RUNS}/{tag}; sleep {lasts_s:g}; echo ends >>{RUNS}/{tag}; exit {status}"


def _runs(file: Path) -> Iterator[Run]:
    text = file.read_text(errors="replace") if file.exists() else ""
    for line in text.splitlines():
        words = line.split(":")
        if line.startswith("#") or len(words) < 40:
            continue
        times = (int(words[number]) for number in (8, 9, 10))
        yield Run(words[0], words[1], words[5], words[6], int(words[11]), int(words[12]), int(words[35]), *times)


@dataclass(frozen=True)
class Job:
    """`wanted`: its status; None: it is deleted, and may have any."""

    tree: TreeLab
    id: str
    tag: str
    wanted: int | None


class Load:
    """Jobs of one test or measurement."""

    def __init__(self, pair: Pair, name: str) -> None:
        self.pair = pair
        self.jobs: list[Job] = []
        self.most: Counter[str] = Counter()
        """Of foreign jobs at once, by the name of the tree."""
        self._name = name
        self._lock = threading.Lock()
        self._before = {each.name: len(runs_of(each)) for each in pair.trees}
        self._reported = {each.name: len(_report_of(each)) for each in pair.trees}
        for each in pair.trees:
            each.run_on_head("mkdir", "-p", RUNS, user=USER)

    # -- acting ---------------------------------------------------------------------------------------------------

    def submit(
        self, tree: TreeLab, status: int | None = 0, lasts_s: float = 1.0, *options: str, queue: str = QUEUE
    ) -> Job:
        with self._lock:
            tag = f"{self._name}.{tree.name}.{len(self.jobs)}"
            script = _script(tag, lasts_s, status or 0)
            job = Job(tree, tree.submit(script, *options, queue=queue), tag, status)
            self.jobs.append(job)
        return job

    def burst(self, tree: TreeLab, count: int, lasts_s: float = 1.0) -> list[Job]:
        """At once: a command on the host submits BURST_MAX of them. Their statuses are 0 to 7."""
        parts = [min(BURST_MAX, count - done) for done in range(0, count, BURST_MAX)]
        return [job for part in parts for job in self._burst(tree, part, lasts_s)]

    def _burst(self, tree: TreeLab, count: int, lasts_s: float) -> list[Job]:
        with self._lock:
            first = len(self.jobs)
            tags = [f"{self._name}.{tree.name}.{first + number}" for number in range(count)]
            lines = "".join(
                f"printf '%s\\n' '{_script(tag, lasts_s, number % 8)}' | "
                f"qsub -terse -wd {HOME} -j y -o /dev/null -q {QUEUE}\n"
                for number, tag in enumerate(tags)
            )
            said = tree.run_on_head("sh", "-s", user=USER, given=lines)
            ids = [line.partition(".")[0] for line in said.split()]
            if len(ids) != count:
                raise LabError(f"{len(ids)} of {count} jobs were submitted: {said[-200:]}")
            found = [
                Job(tree, each, tag, number % 8) for number, (each, tag) in enumerate(zip(ids, tags, strict=True))
            ]
            self.jobs += found
        return found

    # -- looking --------------------------------------------------------------------------------------------------

    def foreign(self, tree: TreeLab) -> int:
        """Jobs in its cell that nobody has submitted there."""
        there = {line[0] for line in tree.engine.lines()}
        with self._lock:  # what is being submitted counts
            own = {each.id for each in self.jobs if each.tree is tree}
        return len(there - own)

    def most_foreign(self, tree: TreeLab) -> Most:
        """At any moment since the load was made, by the report of its qmaster."""
        return most_of(_report_of(tree)[self._reported[tree.name] :])

    def left(self) -> list[Job]:
        """Jobs whose end their own accounting does not have yet."""
        over = {each.name: {run.job for run in self.runs(each) if run.is_end} for each in self.pair.trees}
        return [each for each in self.jobs if each.id not in over[each.tree.name]]

    def await_ended(self, seconds: float) -> None:
        """Raises LabError."""
        self.pair.a.await_that(lambda: not self.left(), f"the jobs of {self._name} end", seconds, self.facts)

    def await_forgotten(self, seconds: float) -> None:
        """No job is in either cell. Raises LabError."""
        empty: Callable[[], bool] = lambda: not any(each.engine.lines() for each in self.pair.trees)  # noqa: E731
        self.pair.a.await_that(empty, "both cells are empty", seconds, self.facts)

    def runs(self, tree: TreeLab) -> list[Run]:
        """Since the load was made."""
        return runs_of(tree)[self._before[tree.name] :]

    def starts(self, job: Job, what: str = "begins") -> list[str]:
        """The trees where it has begun. `what`: "ends": where it has come to its end by itself."""
        found = []
        for each in self.pair.trees:
            file = outside(each, f"{RUNS}/{job.tag}")
            found += [each.name] * (file.read_text().split().count(what) if file.exists() else 0)
        return found

    def faults(self, *, may_begin_again: bool = False) -> list[str]:
        """What an observer has to complain of. `may_begin_again`: a job that has not come to its end may, since its
        transfer host has died."""
        runs = {each.name: self.runs(each) for each in self.pair.trees}
        found = [text for job in self.jobs for text in self._of_job(job, runs[job.tree.name], may_begin_again)]
        for each in self.pair.trees:
            found += _of_cell(each.name, runs[each.name])
        return found

    def _of_job(self, job: Job, runs: list[Run], may_begin_again: bool) -> Iterator[str]:
        about, ends = f"{job.tag} ({job.id})", [run for run in runs if run.job == job.id and run.is_end]
        begun, ended = self.starts(job), self.starts(job, "ends")
        if len(begun) > 1 and not may_begin_again:
            yield f"{about} has begun {len(begun)} times: {begun}"
        if len(ended) > 1 or (len(begun) > 1 and not self._ends_last(job)):
            yield f"{about} has come to its end {len(ended)} times, begun {begun}"
        if len(ends) != 1:
            yield f"{about} has {len(ends)} ends at home: {ends}"
        elif job.wanted is not None and ends[0].status != job.wanted:
            yield f"{about} ended with {ends[0].status}, not {job.wanted}; begun {begun}"

    def _ends_last(self, job: Job) -> bool:
        """It has not begun after its end, as far as one tree can tell."""
        files = (outside(each, f"{RUNS}/{job.tag}") for each in self.pair.trees)
        return not any("ends begins" in " ".join(file.read_text().split()) for file in files if file.exists())

    def abroad(self) -> int:
        """How many jobs have begun in the other tree."""
        return sum(each.tree.name not in self.starts(each) and bool(self.starts(each)) for each in self.jobs)

    @contextmanager
    def watched(self) -> Iterator[None]:
        """The most foreign jobs at once are counted meanwhile."""
        over = threading.Event()
        threads = [threading.Thread(target=self._watch, args=(each, over), daemon=True) for each in self.pair.trees]
        for each in threads:
            each.start()
        try:
            yield
        finally:
            over.set()
            for each in threads:
                each.join()

    def _watch(self, tree: TreeLab, over: threading.Event) -> None:
        while not over.wait(LOOK_S):
            try:
                self.most[tree.name] = max(self.most[tree.name], self.foreign(tree))
            except LabError:  # its host is down
                continue

    def facts(self) -> str:
        return f"left: {_shown(each.tag for each in self.left())}. " + " ".join(map(_facts, self.pair.trees))


def _of_cell(name: str, runs: list[Run]) -> Iterator[str]:
    """Of foreign jobs: no attempt runs twice, and no two attempts of a job overlap."""
    by_job: dict[str, list[Run]] = {}
    for run in runs:
        if run.account.startswith(MARK) and run.began_at:
            by_job.setdefault(run.account.rpartition(".")[0], []).append(run)
    for job, all_runs in by_job.items():
        ordered = sorted(all_runs, key=lambda run: run.began_at)
        marks = [run.account for run in ordered]
        if len(set(marks)) != len(marks):
            yield f"{job} ran twice by one attempt at {name}: {marks}"
        if any(later.began_at < earlier.ended_at for earlier, later in pairwise(ordered)):
            yield f"two attempts of {job} overlap at {name}: {ordered}"


def _shown(names: Iterable[str]) -> str:
    listed = list(names)
    return f"{len(listed)}: {' '.join(listed[:8])}"


def _facts(tree: TreeLab) -> str:
    try:
        states = Counter(tree.states().values())
        jobs = tree.do("jobs", "--ended")
    except LabError as error:
        states, jobs = Counter[str](), str(error)
    return f"{tree.name}: {dict(states)}; its jobs: {jobs[-1500:]}; its agent: {tree.agent_log()[-600:]}\n"
