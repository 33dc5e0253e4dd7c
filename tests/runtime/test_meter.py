"""The meter: the number from each source, failures of a source, and SIGHUP."""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import trio
import trio.testing
from conditions import until
from loops import over

from subord.config.schema import NodeConfig
from subord.runtime.counters import Counters
from subord.runtime.jobs import meter
from subord.runtime.jobs.meter import INTERVAL_S_MAX, WARN_AGAIN_S, PerformanceMeter, Source
from subord.runtime.jobs.rates import Reading
from subord.runtime.jobs.readings import ReadingError

HOUR_S = 3600.0


class FakeDaemon:
    """A meter with a settable clock, and the numbers that it reported."""

    def __init__(self, given: NodeConfig) -> None:
        self.now = 1000.0
        self.told: list[float] = []
        self.counters = Counters()
        self.meter = PerformanceMeter(given, self.counters, self.told.append, lambda: self.now)

    async def look_after(self, seconds: float) -> None:
        self.now += seconds
        await self.meter.look()


# -- reported, and given --------------------------------------------------------------------------------------------


async def test_reported_jobs() -> None:
    daemon = FakeDaemon(NodeConfig())
    await daemon.look_after(HOUR_S)
    assert (daemon.told, daemon.meter.jobs_per_hour) == ([], None)
    for _ in range(600):
        daemon.now += 60
        assert daemon.meter.job_done(2.0) is None
    await daemon.look_after(0)
    assert daemon.told == [pytest.approx(120, rel=0.02)]
    assert daemon.counters.jobs_done == 1200
    await daemon.look_after(HOUR_S)
    assert daemon.told[1:] == [pytest.approx(daemon.told[0] * 0.5**0.25, rel=0.001)]
    assert daemon.meter.jobs_per_hour == daemon.told[1]


@over("weight", [0.0, -1.0, 1.1e6, float("inf"), float("nan")])
async def test_a_weight_out_of_bounds_is_not_counted(weight: float) -> None:
    daemon = FakeDaemon(NodeConfig())
    assert daemon.meter.job_done(weight) == "a weight must be above 0 and at most 1e+06: nothing was counted"
    assert daemon.counters.jobs_done == 0


async def test_a_fixed_number_is_reported_once() -> None:
    daemon = FakeDaemon(NodeConfig(performance=250.0))
    assert daemon.told == []
    daemon.meter.tell_fixed()
    daemon.meter.tell_fixed()
    assert daemon.told == [250.0]
    complaint = "the performance of this node comes from node.performance: nothing was counted"
    assert daemon.meter.job_done(1) == complaint


async def test_without_a_source_and_jobs_nothing_is_reported() -> None:
    daemon = FakeDaemon(NodeConfig(performance_half_life_s=1.0))
    daemon.meter.tell_fixed()
    for _ in range(100):
        await daemon.look_after(HOUR_S)
    assert daemon.told == []


# -- files and pages ------------------------------------------------------------------------------------------------


async def test_a_counter_file(tmp_path: Path, warnings: list[str]) -> None:
    file = tmp_path / "jobs"
    daemon = FakeDaemon(NodeConfig(performance_file=str(file)))
    await daemon.look_after(0)
    assert warnings == [
        f"{file} does not exist; the performance stays unknown: correct node.performance_file or its contents"
    ]
    file.write_text("1000")
    await daemon.look_after(HOUR_S)
    file.write_text("1090")
    await daemon.look_after(HOUR_S)
    assert daemon.told == [pytest.approx(90)]

    file.write_text("12 monkeys")
    await daemon.look_after(HOUR_S)
    assert daemon.told == [pytest.approx(90)]  # it stays
    assert "does not hold one number" in warnings[1]
    assert "the performance stays 90 jobs an hour" in warnings[1]
    file.write_text("180")  # restarted; 180 jobs in the two hours since the last reading
    await daemon.look_after(HOUR_S)
    assert daemon.meter.jobs_per_hour == pytest.approx(90)
    assert dict(daemon.counters.readings_failed) == {"missing": 1, "garbled": 1}
    assert daemon.meter.job_done(1) is not None
    assert daemon.counters.jobs_done == 0


async def test_a_failure_is_logged_once_an_hour_and_counted_each_time(tmp_path: Path, warnings: list[str]) -> None:
    file = tmp_path / "jobs"
    daemon = FakeDaemon(NodeConfig(performance_file=str(file)))
    for number in range(100):
        await daemon.look_after(10)
        file.write_text("x") if number % 2 else file.unlink(missing_ok=True)
    assert len(warnings) == 2
    assert daemon.counters.readings_failed.total() == 100
    file.unlink(missing_ok=True)
    await daemon.look_after(WARN_AGAIN_S)
    assert len(warnings) == 3


async def test_a_metric_in_a_text_file(tmp_path: Path) -> None:
    file = tmp_path / "jobs.prom"
    metric = 'jobs_total{state="done"}'
    daemon = FakeDaemon(NodeConfig(performance_file=str(file), performance_metric=metric))
    for jobs in (10, 40):
        page = f'# TYPE jobs_total counter\njobs_total{{state="done"}} {jobs}\njobs_total{{state="failed"}} 999\n'
        file.write_text(page)
        await daemon.look_after(HOUR_S)
    assert daemon.told == [pytest.approx(30)]


class Exporter:
    """A page on this machine with settable content."""

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
        daemon = FakeDaemon(NodeConfig(performance_url=exporter.url, performance_metric="jobs"))
        for value in values:
            exporter.page = f"# TYPE jobs {kind}\njobs {value}\n# TYPE other gauge\nother 3\n"
            await daemon.look_after(HOUR_S)
    assert daemon.told == [pytest.approx(told)]
    await daemon.look_after(HOUR_S)  # the server has ended
    assert daemon.counters.readings_failed == {"missing": 1}
    assert daemon.meter.jobs_per_hour == pytest.approx(told)


async def test_a_source_that_hangs_uses_one_thread_and_times_out(
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
    daemon = FakeDaemon(NodeConfig(performance_file="/nowhere"))
    try:
        for _ in range(3):
            await daemon.look_after(10)
        assert (len(came), daemon.counters.readings_failed) == (1, {"slow": 3})
        assert len(warnings) == 1
        assert "is not read within 0.1 s" in warnings[0]
    finally:
        go.set()
    await until(lambda: came_back, "the thread is back")
    await daemon.look_after(10)
    assert len(came) == 2


async def test_a_reading_of_a_replaced_source_is_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    came, go = threading.Event(), threading.Event()

    def hang(_: Source) -> Reading:
        came.set()
        go.wait()
        raise ReadingError("missing", "does not exist")

    monkeypatch.setattr(Source, "read", hang)
    daemon = FakeDaemon(NodeConfig(performance_file="/nowhere"))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(daemon.meter.look)
        await until(came.is_set, "the source is being read")
        daemon.meter.replace(NodeConfig(performance_file="/elsewhere"))
        go.set()
    assert daemon.counters.readings_failed == {}


async def test_another_source_is_logged_anew(tmp_path: Path, warnings: list[str]) -> None:
    daemon = FakeDaemon(NodeConfig(performance_file=str(tmp_path / "one")))
    await daemon.look_after(0)
    daemon.meter.replace(NodeConfig(performance_file=str(tmp_path / "two")))
    await daemon.look_after(0)
    assert [each.split()[0] for each in warnings] == [str(tmp_path / "one"), str(tmp_path / "two")]


# -- for ever, and SIGHUP -------------------------------------------------------------------------------------------


async def test_the_source_is_read_repeatedly_and_replaced_at_once(tmp_path: Path) -> None:
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
            """Report jobs until the number is known, then none."""
            nonlocal jobs
            if len(told) == 1:
                jobs += 1
                file.write_text(str(jobs))
            return len(told) >= 3 and told[-1] < told[-2]

        await until(it_sinks, "a rate is told, and sinks")
        nursery.cancel_scope.cancel()


async def test_a_fixed_number_is_not_measured_and_another_source_is_read_at_once(tmp_path: Path) -> None:
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
        assert trio.current_time() - began < INTERVAL_S_MAX / 2
        nursery.cancel_scope.cancel()


async def test_the_same_source_continues_and_another_half_life_starts_again() -> None:
    daemon = FakeDaemon(NodeConfig())
    daemon.meter.job_done(1)
    daemon.meter.replace(NodeConfig(grace_s=1.0))
    await daemon.look_after(HOUR_S)
    assert len(daemon.told) == 1
    daemon.meter.replace(NodeConfig(performance_half_life_s=60.0))
    await daemon.look_after(HOUR_S)
    assert (len(daemon.told), daemon.meter.jobs_per_hour) == (1, daemon.told[0])
