"""`subord metrics` and `/metrics/cluster`: what the fold of a cluster is shown as, and whom it covers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import trio
from loops import over
from prometheus_client.parser import text_string_to_metric_families

from subord.api.models.metrics import MetricsDocument
from subord.cli import main
from subord.client import exit_codes
from subord.config.schema import MetricsConfig
from subord.core.carriage.reports.algebra import Count
from subord.core.carriage.reports.coverage import Coverage, Missing
from subord.core.carriage.reports.records import fold
from subord.core.carriage.reports.reports import Fold
from subord.services.metrics import core
from subord.services.metrics.exposition import page
from subord.services.metrics.record import figures, record_of
from subord.services.metrics.table.layout import short
from tests.api.fake_node_api import World
from tests.api.served_node import fake_daemon

IDLE = 'node_cpu_seconds_per_second{mode="idle"}'
Said = pytest.CaptureFixture[str]


def folded(nodes: range) -> Fold:
    """Of nodes with their position as load, and of one that sends what is no figure."""
    record = fold([record_of({"node_load1": float(each), IDLE: each / 2}, each) for each in nodes])
    covered = Coverage(len(nodes) + 1, len(nodes), (Missing("stale", 1, (10, 0)),))
    return Fold({**record, "strange": Count(7)}, covered, 4.25, is_root=True)


@pytest.fixture
def socket() -> Any:
    node = World().node(1)
    node.orders.folds["metrics"] = folded(range(1, 11))
    with fake_daemon(node) as path:
        yield path


def typed(capsys: Said, *words: str) -> tuple[int, list[str], str]:
    code = main(["metrics", *words])
    out, err = capsys.readouterr()
    return code, out.splitlines(), err


def test_the_table(socket: str, capsys: Said) -> None:
    code, lines, _ = typed(capsys, "--socket", socket)
    assert code == exit_codes.NOT_REACHED
    assert [line.split() for line in lines[:3]] == [
        ["metric", "nodes", "sum", "least", "median", "95", "%", "greatest", "on"],
        [IDLE, "10", "27.5", "0.5", "2.5", "4.5", "5", "10.0.0.10"],
        ["node_load1", "10", "55", "1", "5", "9", "10", "10.0.0.10"],
    ]
    assert lines[3] == "10 of 11 reported, the oldest 4250 ms ago; missing: 10.0.0.11 stale"


def test_one_metric_and_its_busiest_nodes(socket: str, capsys: Said) -> None:
    _, lines, _ = typed(capsys, "node_load*", "--top", "2", "--socket", socket)
    assert [line.split() for line in lines[:-1]] == [["node_load1"], ["10", "10.0.0.10"], ["9", "10.0.0.9"]]
    code, lines, err = typed(capsys, "nosuch", "--socket", socket)
    assert (code, lines) == (exit_codes.NO_SUCH_NODE, [])
    assert f"no metric 'nosuch' is known; there are: {IDLE}, node_load1" in err


@over(
    ("value", "text"),
    [
        (0.0, "0"),
        (0.01234, "0.0123"),
        (1.0, "1"),
        (999.4, "999"),
        (999.9, "1k"),
        (12_345.0, "12.3k"),
        (-4.56e9, "-4.56G"),
        (1e21, "1e+03E"),
    ],
)
def test_a_number_has_three_digits(value: float, text: str) -> None:
    assert short(value) == text


def document() -> MetricsDocument:
    found = folded(range(1, 101))
    return MetricsDocument(
        asked=101,
        told=100,
        complete=False,
        missing=(),
        oldest_ms=4250.0,
        metrics=tuple(figures(found.record, lambda position: f"10.0.0.{position}")),
        left_out=0,
    )


def test_the_page_for_prometheus() -> None:
    families = {each.name: each for each in text_string_to_metric_families(page(document()).decode())}
    samples = {
        (each.name, *sorted(each.labels.items())): each.value
        for family in families.values()
        for each in family.samples
    }
    assert families["subord_cluster_node_load1"].type == "summary"
    assert samples["subord_cluster_nodes_asked",] == 101
    assert samples["subord_cluster_nodes_told",] == 100
    assert samples["subord_cluster_complete",] == 0
    assert samples["subord_cluster_age_seconds",] == 4.25
    assert samples["subord_cluster_node_load1_count",] == 100
    assert samples["subord_cluster_node_load1_sum",] == 5050
    assert samples["subord_cluster_node_load1_min",] == 1
    assert samples["subord_cluster_node_load1_max",] == 100
    assert samples["subord_cluster_node_load1", ("quantile", "0.5")] == pytest.approx(50, rel=0.01)
    assert samples["subord_cluster_node_cpu_seconds_per_second_sum", ("mode", "idle")] == 2525


async def test_the_root_is_asked_once_for_many_scrapes(monkeypatch: pytest.MonkeyPatch) -> None:
    node = World().node(1)
    node.orders.folds["metrics"] = folded(range(1, 4))
    handler = core.paths(node)["/metrics/cluster"]
    async with trio.open_nursery() as nursery:
        for _ in range(5):
            nursery.start_soon(handler, {})
    response = await handler({})
    assert b"subord_cluster_node_load1_count 3.0" in response.body  # type: ignore[union-attr]
    assert len(node.orders.given) == 1


async def test_a_node_publishes_its_samples_and_names_a_source_that_fails() -> None:
    node = World().node(1)
    record = await core.record(node)
    assert "node_load1" in record
    assert await core.record(node) != {}


async def test_a_node_may_publish_nothing() -> None:
    node = World().node(1)
    node.metrics = MetricsConfig(publish=False)
    assert await core.record(node) is None


async def test_a_source_that_fails_is_a_problem_of_the_node(tmp_path: Path) -> None:
    (tmp_path / "half.prom").write_text("node_load9 1")
    node = World().node(1)
    node.metrics = MetricsConfig(text_directory=str(tmp_path))
    await core.record(node)
    assert node.counters.dropped["metrics_garbled"] == 1
    (shown,) = node.counters.problems.shown()
    assert "half.prom does not end with a line break" in shown.text
