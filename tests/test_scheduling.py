from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import PurePath
from types import SimpleNamespace
from typing import Any

import scheduling

LABS = [f"tests/lab/test_lab_{each}.py::test_it@lab {each}" for each in "ab"]
CORE = [f"tests/core/test_{each}.py::test_it@core {each}" for each in "cd"]


@dataclass(eq=False)
class Worker:
    """What a scheduler sees of a worker."""

    name: str
    got: list[int] = field(default_factory=list)
    shutting_down: bool = False

    @property
    def gateway(self) -> SimpleNamespace:
        return SimpleNamespace(id=self.name)

    def send_runtest_some(self, indices: Iterable[int]) -> None:
        self.got += indices

    def shutdown(self) -> None:
        self.shutting_down = True


def play(tests: list[str], workers: int) -> list[Worker]:
    """Each worker ends its tests in turn, until all have ended."""
    config: Any = SimpleNamespace(
        getvalue=lambda _name: [f"{workers}*popen"], option=SimpleNamespace(loadscopereorder=False)
    )
    scheduler = scheduling.Scheduling(config)
    nodes: list[Any] = [Worker(f"gw{each}") for each in range(workers)]
    for node in nodes:
        scheduler.add_node(node)
    for node in nodes:
        scheduler.add_node_collection(node, tests)
    scheduler.schedule()
    for turn in range(len(tests)):
        for node in nodes:
            if turn < len(node.got):
                scheduler.mark_test_complete(node, node.got[turn])
    assert sorted(each for node in nodes for each in node.got) == list(range(len(tests)))
    assert all(node.shutting_down for node in nodes)
    return nodes


def test_the_last_worker_computes_and_no_daemon_is_started_there() -> None:
    tests = [*LABS, *CORE] * 3
    tests = [f"{each}{number}" for number, each in enumerate(tests)]
    *others, last = play(tests, workers=3)
    assert last.got
    assert all("tests/core/" in tests[each] for each in last.got)
    assert all("tests/lab/" in tests[each.got[0]] for each in others)


def test_the_others_take_what_computes_when_nothing_else_is_left() -> None:
    first, _second, last = play([f"{CORE[0]}{number}" for number in range(20)], workers=3)
    assert first.got
    assert last.got


def test_of_six_workers_two_compute() -> None:
    tests = [*LABS, *CORE] * 3
    tests = [f"{each}{number}" for number, each in enumerate(tests)]
    workers = play(tests, workers=6)
    computing = [{tests[each].split("/")[1] for each in worker.got} for worker in workers[4:]]
    assert computing == [{"core"}, {"core"}]


def test_without_what_computes_the_last_worker_ends() -> None:
    *_others, last = play([f"{LABS[0]}{number}" for number in range(20)], workers=3)
    assert not last.got


def test_of_two_workers_each_takes_everything() -> None:
    _first, last = play([f"{LABS[0]}{number}" for number in range(20)], workers=2)
    assert last.got


def test_a_worker_that_replaces_another_computes_nothing_alone() -> None:
    found = {each for each in ("gw3", "gw4", "gw5", "gw6", "mine") if scheduling.has_what_computes(each, 6)}
    assert found == {"gw4", "gw5"}


def test_a_test_apart_is_a_group_whose_name_xdist_reads() -> None:
    """After an `@`, and without the `]` that ends the name of a case."""
    items: list[Any] = [
        SimpleNamespace(path=PurePath("tests/sim/test_x.py"), name=name)
        for name in ("test_a", "test_a[range(2, 50)]")
    ]
    marks: dict[str, Any] = {"apart": None}
    groups = [scheduling.group_of(each, marks) for each in items]
    assert groups == ["test_x.py:test_a", "test_x.py:test_a:range(2, 50)"]
