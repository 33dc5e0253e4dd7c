"""The foreman's slate: what is told from which source, what stands while nothing can be read, and SIGHUP."""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import trio
import trio.testing
from conditions import until

from subord.config.schema import NodeConfig
from subord.runtime.counters import Counters
from subord.runtime.jobs import meter
from subord.runtime.jobs.meter import COMPLAIN_AGAIN_S, PAUSE_S_MAX, PerformanceMeter, Source
from subord.runtime.jobs.rates import Reading
from subord.runtime.jobs.readings import ReadingError

HOUR_S = 3600.0


class Slate:
    """A meter, what it told, and a clock that the test turns."""

    def __init__(self, given: NodeConfig) -> None:
        self.now = 1000.0
        self.told: list[float] = []
        self.counters = Counters()
        self.meter = PerformanceMeter(given, self.counters, self.told.append, lambda: self.now)

    async def look_after(self, seconds: float) -> None:
        self.now += seconds
        await self.meter.look()


# -- reported, and given --------------------------------------------------------------------------------------------


async def test_jobs_that_are_reported() -> None:
    slate = Slate(NodeConfig())
    await slate.look_after(HOUR_S)
    assert (slate.told, slate.meter.jobs_per_hour) == ([], None)
    for _ in range(600):
        slate.now += 60
        assert slate.meter.job_done(2.0) is None
    await slate.look_after(0)
    assert slate.told == [pytest.approx(120, rel=0.02)]
    assert slate.counters.jobs_done == 1200
    await slate.look_after(HOUR_S)
    assert slate.told[1:] == [pytest.approx(slate.told[0] * 0.5**0.25, rel=0.001)]
    assert slate.meter.jobs_per_hour == slate.told[1]


@pytest.mark.parametrize("weight", [0.0, -1.0, 1.1e6, float("inf"), float("nan")])
async def test_a_weight_out_of_bounds_is_not_counted(weight: float) -> None:
    slate = Slate(NodeConfig())
    assert slate.meter.job_done(weight) == "a weight must be above 0 and at most 1e+06: nothing was counted"
    assert slate.counters.jobs_done == 0


async def test_a_given_number_is_told_as_it_is_and_once() -> None:
    slate = Slate(NodeConfig(performance=250.0))
    assert slate.told == []
    slate.meter.tell_fixed()
    slate.meter.tell_fixed()
    assert slate.told == [250.0]
    complaint = "the performance of this node comes from node.performance: nothing was counted"
    assert slate.meter.job_done(1) == complaint


async def test_without_a_source_and_without_a_job_nothing_is_told() -> None:
    slate = Slate(NodeConfig(performance_half_life_s=1.0))
    slate.meter.tell_fixed()
    for _ in range(100):
        await slate.look_after(HOUR_S)
    assert slate.told == []


# -- files and pages ------------------------------------------------------------------------------------------------


async def test_a_counter_file(tmp_path: Path, warnings: list[str]) -> None:
    file = tmp_path / "jobs"
    slate = Slate(NodeConfig(performance_file=str(file)))
    await slate.look_after(0)
    assert warnings == [
        f"{file} does not exist; the performance stays unknown: correct node.performance_file, or what writes there"
    ]
    file.write_text("1000")
    await slate.look_after(HOUR_S)
    file.write_text("1090")
    await slate.look_after(HOUR_S)
    assert slate.told == [pytest.approx(90)]

    file.write_text("12 monkeys")
    await slate.look_after(HOUR_S)
    assert slate.told == [pytest.approx(90)]  # it stays
    assert "does not hold one number" in warnings[1]
    assert "the performance stays 90 jobs an hour" in warnings[1]
    file.write_text("180")  # began anew; 180 jobs in the two hours since the last reading
    await slate.look_after(HOUR_S)
    assert slate.meter.jobs_per_hour == pytest.approx(90)
    assert dict(slate.counters.readings_failed) == {"missing": 1, "garbled": 1}
    assert slate.meter.job_done(1) is not None
    assert slate.counters.jobs_done == 0


async def test_a_reason_is_told_once_an_hour_and_counted_each_time(tmp_path: Path, warnings: list[str]) -> None:
    file = tmp_path / "jobs"
    slate = Slate(NodeConfig(performance_file=str(file)))
    for number in range(100):
        await slate.look_after(10)
        file.write_text("x") if number % 2 else file.unlink(missing_ok=True)
    assert len(warnings) == 2
    assert slate.counters.readings_failed.total() == 100
    file.unlink(missing_ok=True)
    await slate.look_after(COMPLAIN_AGAIN_S)
    assert len(warnings) == 3


async def test_a_metric_in_a_text_file(tmp_path: Path) -> None:
    file = tmp_path / "jobs.prom"
    metric = 'jobs_total{state="done"}'
    slate = Slate(NodeConfig(performance_file=str(file), performance_metric=metric))
    for jobs in (10, 40):
        page = f'# TYPE jobs_total counter\njobs_total{{state="done"}} {jobs}\njobs_total{{state="failed"}} 999\n'
        file.write_text(page)
        await slate.look_after(HOUR_S)
    assert slate.told == [pytest.approx(30)]


class Exporter:
    """A page on this machine. The test sets what it says."""

    def __init__(self) -> None:
        self.page = ""
        self.asked = 0
        exporter = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                exporter.asked += 1
                self.send_response(200)
                self.end_headers()
                self.wfile.write(exporter.page.encode())

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/metrics"
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.01,))

    def __enter__(self) -> Exporter:
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()


@pytest.mark.parametrize(
    ("kind", "values", "told"),
    [("gauge", (70, 70), 70.0), ("counter", (500, 530), 30.0), ("counter", (500, 20), 20.0)],
)
async def test_a_metric_of_a_page(kind: str, values: tuple[int, int], told: float) -> None:
    with Exporter() as exporter:
        slate = Slate(NodeConfig(performance_url=exporter.url, performance_metric="jobs"))
        for value in values:
            exporter.page = f"# TYPE jobs {kind}\njobs {value}\n# TYPE other gauge\nother 3\n"
            await slate.look_after(HOUR_S)
    assert slate.told == [pytest.approx(told)]
    await slate.look_after(HOUR_S)  # nobody is there any more
    assert slate.counters.readings_failed == {"missing": 1}
    assert slate.meter.jobs_per_hour == pytest.approx(told)


async def test_a_source_that_hangs_costs_one_thread_and_is_waited_for_in_vain(
    monkeypatch: pytest.MonkeyPatch, warnings: list[str]
) -> None:
    monkeypatch.setattr(meter, "FETCH_S_MAX", 0.05)
    came: list[int] = []
    came_back: list[int] = []
    go = threading.Event()

    def hang(_: Source) -> Reading:
        came.append(1)
        go.wait()
        came_back.append(1)
        return Reading("counter", 1.0)

    monkeypatch.setattr(Source, "read", hang)
    slate = Slate(NodeConfig(performance_file="/nowhere"))
    try:
        for _ in range(3):
            await slate.look_after(10)
        assert (len(came), slate.counters.readings_failed) == (1, {"slow": 3})
        assert len(warnings) == 1
        assert "is not read within 0.1 s" in warnings[0]
    finally:
        go.set()
    await until(lambda: came_back, "the thread is back")
    await slate.look_after(10)
    assert len(came) == 2


async def test_what_a_source_says_that_was_replaced_meanwhile_is_not_heard(monkeypatch: pytest.MonkeyPatch) -> None:
    came, go = threading.Event(), threading.Event()

    def hang(_: Source) -> Reading:
        came.set()
        go.wait()
        raise ReadingError("missing", "does not exist")

    monkeypatch.setattr(Source, "read", hang)
    slate = Slate(NodeConfig(performance_file="/nowhere"))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(slate.meter.look)
        await until(came.is_set, "the source is being read")
        slate.meter.replace(NodeConfig(performance_file="/elsewhere"))
        go.set()
    assert slate.counters.readings_failed == {}


async def test_another_source_has_complaints_of_its_own(tmp_path: Path, warnings: list[str]) -> None:
    slate = Slate(NodeConfig(performance_file=str(tmp_path / "one")))
    await slate.look_after(0)
    slate.meter.replace(NodeConfig(performance_file=str(tmp_path / "two")))
    await slate.look_after(0)
    assert [each.split()[0] for each in warnings] == [str(tmp_path / "one"), str(tmp_path / "two")]


# -- for ever, and SIGHUP -------------------------------------------------------------------------------------------


async def test_it_looks_again_and_again_and_takes_another_source_at_once(tmp_path: Path) -> None:
    file = tmp_path / "jobs"
    file.write_text("5")
    told: list[float] = []
    meter = PerformanceMeter(NodeConfig(), Counters(), told.append)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(meter.measure_forever)
        meter.replace(NodeConfig(performance=7.0))
        assert told == [7.0]
        meter.replace(NodeConfig(performance=7.0, log_level="debug"))
        assert told == [7.0]
        meter.replace(NodeConfig(performance_file=str(file), performance_half_life_s=1.0))
        assert meter.jobs_per_hour == 7.0  # until there is something new
        jobs = 5

        def it_sinks() -> bool:
            """Jobs come until one was noticed; then none comes any more."""
            nonlocal jobs
            if len(told) == 1:
                jobs += 1
                file.write_text(str(jobs))
            return len(told) >= 3 and told[-1] < told[-2]

        await until(it_sinks, "a rate is told, and sinks")
        nursery.cancel_scope.cancel()


async def test_a_given_number_is_not_looked_for_and_another_source_is_looked_at_at_once(tmp_path: Path) -> None:
    counters = Counters()
    meter = PerformanceMeter(NodeConfig(performance=7.0), counters, lambda _: None)
    began = trio.current_time()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(meter.measure_forever)
        await trio.testing.wait_all_tasks_blocked(0.05)
        assert counters.readings_failed == {}
        meter.replace(NodeConfig())
        await trio.testing.wait_all_tasks_blocked(0.05)
        meter.replace(NodeConfig(performance_file=str(tmp_path / "jobs")))
        await until(lambda: counters.readings_failed, "it is looked at")
        assert trio.current_time() - began < PAUSE_S_MAX / 2
        nursery.cancel_scope.cancel()


async def test_the_same_source_goes_on_and_another_half_life_begins_anew() -> None:
    slate = Slate(NodeConfig())
    slate.meter.job_done(1)
    slate.meter.replace(NodeConfig(grace_s=1.0))
    await slate.look_after(HOUR_S)
    assert len(slate.told) == 1
    slate.meter.replace(NodeConfig(performance_half_life_s=60.0))
    await slate.look_after(HOUR_S)
    assert (len(slate.told), slate.meter.jobs_per_hour) == (1, slate.told[0])
