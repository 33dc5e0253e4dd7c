"""The keys of performance: valid combinations, and the forms of metrics and URLs."""

from __future__ import annotations

from pathlib import Path

import pytest
from loops import over

from subord.config.load import load
from subord.config.performance import Place, Selector, place_of, selector_of
from subord.config.source import ConfigError

HEAD = '[cluster]\nnetwork = "10.0.0.0/24"\n[node]\n'
URL = 'performance_url = "http://127.0.0.1/"'


@pytest.fixture(autouse=True)
def _in_empty_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@over(
    "lines",
    [
        "performance = 250",
        'performance_file = "jobs"',
        'performance_file = "jobs.prom"\nperformance_metric = "jobs_total"',
        f'{URL}\nperformance_metric = "jobs_total"\nperformance_half_life_s = 1',
        "performance = 250\nperformance_half_life_s = 60",
    ],
)
def test_one_source(lines: str) -> None:
    Path("subord.toml").write_text(HEAD + lines)
    load("subord.toml")


def test_a_file_lies_beside_the_configuration() -> None:
    Path("etc").mkdir()
    Path("etc/subord.toml").write_text(HEAD + 'performance_file = "jobs"')
    assert load("etc/subord.toml").node.performance_file == "etc/jobs"


@over(
    ("lines", "expected"),
    [
        (
            'performance = 1\nperformance_file = "x"',
            ":5: performance_file and performance are both given; remove one",
        ),
        (f'performance_file = "x"\n{URL}', ":5: performance_url and performance_file are both given; remove one"),
        (URL, ":4: performance_url needs node.performance_metric, the metric to read there"),
        ('performance_metric = "x"', ":4: performance_metric needs performance_file or performance_url"),
        (
            'performance = 1\nperformance_metric = "x"',
            ":5: performance_metric needs performance_file or performance_url",
        ),
        (
            'performance_file = "x"\nperformance_metric = "a b"',
            ':5: performance_metric must be NAME or NAME{LABEL="VALUE"}, not "a b"',
        ),
        (
            'performance_url = "https://127.0.0.1/"',
            ':4: performance_url must be an http address of this machine, e.g. "http://127.0.0.1:9100/metrics", not',
        ),
        ("performance = -1", ":4: performance must be a number from 0 to 1000000000.0, not -1"),
        ("performance = inf", ":4: performance must be a number from 0 to 1000000000.0, not inf"),
        ("performance_half_life_s = 0", ":4: performance_half_life_s must be a number from 1 to 2592000, not 0"),
    ],
)
def test_a_contradiction_is_named_with_its_line(lines: str, expected: str) -> None:
    Path("subord.toml").write_text(HEAD + lines)
    with pytest.raises(ConfigError) as caught:
        load("subord.toml")
    assert expected in str(caught.value)


@over(
    ("text", "selector"),
    [
        ("jobs_total", Selector("jobs_total", ())),
        ("slurm:jobs", Selector("slurm:jobs", ())),
        ('jobs{a="b"}', Selector("jobs", (("a", "b"),))),
        ('jobs{a="b,c",d=""}', Selector("jobs", (("a", "b,c"), ("d", "")))),
        ('jobs{a="b=\'}"}', Selector("jobs", (("a", "b='}"),))),
        *[(text, None) for text in ("", "1x", "jobs{}", "jobs{a=b}", 'jobs{a="b"', 'jobs{a!="b"}', 'jobs{a="\\n"}')],
        *[(text, None) for text in ("jobs x", "jöbs", 'jobs{a="b",}', 'jobs{a="b"} 1', "jobs\n")],
    ],
)
def test_metrics_are_selected_by_name_and_labels(text: str, selector: Selector | None) -> None:
    assert selector_of(text) == selector


@over(
    ("url", "place"),
    [
        ("http://127.0.0.1:9100/metrics", Place("127.0.0.1", 9100, "/metrics")),
        ("http://localhost", Place("localhost", 80, "/")),
        ("http://[::1]:1/a?b=c&d", Place("::1", 1, "/a?b=c&d")),
        ("http://127.3.4.5/", Place("127.3.4.5", 80, "/")),
        *[(url, None) for url in ("", "x", "https://127.0.0.1/", "http://10.0.0.1/", "http://node1/", "http:///x")],
        *[(url, None) for url in ("http://127.0.0.1:x/", "http://127.0.0.1:99999/", "http://a@127.0.0.1/")],
        *[
            (url, None)
            for url in ("http://127.0.0.1/#a", "http://127.0.0.1/a b", "http://127.0.0.1/ä", "http://[::1")
        ],
        *[
            (url, None)
            for url in ("http://127.0.0.1.example.org/", "file:///etc/passwd", "http://127.0.0.1/\r\nX: y")
        ],
    ],
)
def test_pages_are_those_of_this_machine(url: str, place: Place | None) -> None:
    assert place_of(url) == place
