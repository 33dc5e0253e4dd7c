"""`subord metrics` and `/metrics/cluster`: what the fold of a cluster is shown as, and whom it covers."""

from __future__ import annotations

import time
from math import inf, nan
from pathlib import Path
from typing import Any

import msgspec
import pytest
import trio
from loops import over
from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics_families
from prometheus_client.parser import text_string_to_metric_families

from subord.api.http.server import METRICS_TYPE, Response
from subord.api.models.metrics import MetricDocument, MetricsDocument
from subord.cli import main
from subord.client import exit_codes
from subord.config.schema import MetricsConfig
from subord.core.carriage.reports.algebra import TOP_MAX, Count
from subord.core.carriage.reports.coverage import Coverage, Missing
from subord.core.carriage.reports.records import fold
from subord.core.carriage.reports.reports import Fold
from subord.core.carriage.reports.spread import Others, Spread
from subord.runtime.problems import LATELY_S
from subord.services.metrics import core
from subord.services.metrics.command import short
from subord.services.metrics.exposition import page
from subord.services.metrics.record import figures, record_of
from subord.services.metrics.texts import name_of
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
    assert {each.type for each in families.values()} == {"gauge"}, "sums become less when a node leaves"
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


def figure(name: str) -> MetricDocument:
    return MetricDocument(name=name, count=1, sum=2.0, min=2.0, max=2.0, quantiles={"0.5": 2.0}, top=())


def page_of(*names: str, is_openmetrics: bool = False) -> str:
    metrics = tuple(map(figure, names))
    found = msgspec.structs.replace(document(), metrics=metrics)
    return page(found, is_openmetrics=is_openmetrics).decode()


def test_no_two_families_of_a_page_have_a_name_in_common() -> None:
    names = ("x", "x_count", "x_max", "complete", "age_seconds", "y_count", 'x{a="b"}', "nodes", "nodes_told")
    text = page_of(*names)
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    samples = [line.rpartition(" ")[0] for line in lines]
    assert len(samples) == len(set(samples))
    families = [line.split()[2] for line in text.splitlines() if line.startswith("# TYPE ")]
    assert len(families) == len(set(families))
    for name in ("complete", "age_seconds", "nodes_told"):
        assert len([each for each in samples if each.startswith(f"subord_cluster_{name}")]) == 1
    assert {"subord_cluster_y_count_count", 'subord_cluster_x_count{a="b"}', "subord_cluster_nodes_sum"} <= {*samples}
    assert "subord_cluster_metrics_left_out 5.0" in lines


def test_the_quantiles_of_nodes_are_not_taken_for_those_of_the_cluster() -> None:
    (family,) = (
        each
        for each in text_string_to_metric_families(page_of('gc{quantile="0.5"}', 'gc{quantile="0.9"}'))
        if each.name == "subord_cluster_gc"
    )
    found = [each.labels for each in family.samples if each.name == "subord_cluster_gc"]
    assert found == [{"exported_quantile": share, "quantile": "0.5"} for share in ("0.5", "0.9")]


def test_labels_are_escaped_once() -> None:
    value = 'a"b\\c\nd,e="f}'
    text = page_of(name_of("x", [("path", value), ("b", "")]))
    (family,) = (each for each in text_string_to_metric_families(text) if each.name == "subord_cluster_x_max")
    assert [each.labels for each in family.samples] == [{"path": value, "b": ""}]


def test_the_page_as_openmetrics() -> None:
    metrics = (
        figure("node_load1"),
        msgspec.structs.replace(figure('x{quantile="0.5"}'), sum=-2.0, quantiles={"0.5": -2.0}),
    )
    text = page(msgspec.structs.replace(document(), metrics=metrics), is_openmetrics=True).decode()
    families = {each.name: each for each in openmetrics_families(text)}
    assert families["subord_cluster_x_sum"].samples[0].value == -2.0
    assert text.endswith("# EOF\n")


def test_fields_that_are_no_metric_are_no_figures() -> None:
    good = Spread.of(1.0, 1)
    others = Others(1, least=nan)
    names = [
        "",
        "}{",
        "a b",
        "a 5",
        "a{",
        'a{b="c}',
        'a{b="\x1b"}',
        "a\nb",
        "1a",
        "a{b}",
        "#",
        'a{b="c",}',
        'é{b="c"}',
    ]
    record = {
        **dict.fromkeys(names, good),
        'good{b="é"}': good,
        "endless": Spread.of(-1.7e308, 1),
        "nan": Spread(tuple((20.0 - each, each + 1) for each in range(TOP_MAX)), others),
    }
    assert [each.name for each in figures(record, str)] == ['good{b="é"}']


def test_a_node_publishes_nothing_that_others_cannot_read_or_add_up() -> None:
    samples = {"x" * 64: 1.0, "y" * 65: 1.0, "large": 1e18, "huge": -1.7e308, "nan": nan, "inf": inf, "\udcff": 1.0}
    assert record_of(samples, 1).keys() == {"x" * 64, "large"}


async def test_the_page_is_asked_for_as_openmetrics() -> None:
    node = World().node(1)
    node.orders.folds["metrics"] = folded(range(1, 4))
    handler = core.paths(node)["/metrics/cluster"]
    response, plain = await handler({"format": "openmetrics"}), await handler({})
    assert isinstance(response, Response)
    assert isinstance(plain, Response)
    assert response.content_type == "application/openmetrics-text; version=1.0.0; charset=utf-8"
    assert response.body.endswith(b"# EOF\n")
    assert plain.content_type == METRICS_TYPE
    assert b"# EOF" not in plain.body
    assert len(node.orders.given) == 1, "the root is asked once for both"


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
    await trio.sleep(0.15)
    again = await core.record(node)
    assert "node_disk_read_bytes_per_second" in again or "node_network_receive_bytes_per_second" in again


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


async def test_a_source_that_was_mended_is_no_problem_after_a_while(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = tmp_path / "fans.prom"
    node = World().node(1)
    node.metrics = MetricsConfig(text_directory=str(tmp_path))
    for content in ("node_load9 1", "node_load9 1\n"):
        text.write_text(content)
        await core.record(node)
        assert len([*node.counters.problems.shown()]) == 1
    monkeypatch.setattr(node.counters.problems, "_clock", lambda: time.monotonic() + LATELY_S + 1)
    assert not [*node.counters.problems.shown()]
    assert node.counters.dropped["metrics_garbled"] == 1
