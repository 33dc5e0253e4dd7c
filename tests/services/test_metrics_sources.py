"""Samples of exporters, text files and programs: what is told, and what each fault costs."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import trio
from conditions import until
from loops import over

from subord.services.metrics import collecting, programs
from subord.services.metrics.collecting import Collector, Sources
from subord.services.metrics.texts import SAMPLES_MAX, TextError, samples_of

PAGE = """\
# HELP jobs_total Jobs.
# TYPE jobs_total counter
jobs_total{queue="b",cluster="a"} 7
jobs_total{queue="c",cluster="a"} 8
# TYPE fans gauge
fans 1200
odd NaN
endless +Inf
other{x="1"} 3
"""


def wants(*names: str) -> object:
    return lambda name: name in names


def test_the_wanted_samples_of_a_page() -> None:
    assert samples_of(PAGE, wants("jobs_total", "fans", "odd", "endless")) == {  # type: ignore[arg-type]
        'jobs_total{cluster="a",queue="b"}': 7.0,
        'jobs_total{cluster="a",queue="c"}': 8.0,
        "fans": 1200.0,
    }
    assert samples_of("", wants("x")) == {}  # type: ignore[arg-type]


@over(
    ("text", "reason", "said"),
    [
        ("fans 12", "garbled", "half written"),
        ("fans twelve\n", "garbled", "text format"),
        ('fans{a="1" 3\n', "garbled", "text format"),
        ("fans 1\nfans 2\n", "garbled", "fans twice"),
        ("fans " + "1" * 5000 + "\n", "too_large", "more than 4096 characters"),
        ('fans{a="' + "x" * 60 + '"} 1\n', "too_large", "a name of more than 60 characters"),
        ("".join(f'fans{{a="{n}"}} 1\n' for n in range(SAMPLES_MAX + 1)), "too_large", "wanted samples"),
    ],
)
def test_a_page_that_is_not_used(text: str, reason: str, said: str) -> None:
    with pytest.raises(TextError, match=said) as error:
        samples_of(text, wants("fans"))  # type: ignore[arg-type]
    assert error.value.reason == reason


def test_labels_that_nobody_wants_cost_nothing() -> None:
    text = "".join(f'others{{a="{n}"}} 1\n' for n in range(50_000)) + "fans 1\n"
    assert samples_of(text, wants("fans")) == {"fans": 1.0}  # type: ignore[arg-type]


# -- programs -----------------------------------------------------------------------------------------------


def program(folder: Path, text: str, name: str = "sensor", mode: int = 0o755) -> str:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(mode)
    return str(path)


async def test_a_program_tells_its_page(tmp_path: Path) -> None:
    assert await programs.page_of(program(tmp_path, "echo fans 7; pwd; env | wc -l >&2")) == "fans 7\n/\n"


@over(
    ("text", "mode", "reason"),
    [
        ("exit 3", 0o755, "failed"),
        ("sleep 1000", 0o755, "slow"),
        ("sleep 1000 & echo fans 7", 0o755, "slow"),
        ("cat /dev/zero", 0o755, "too_large"),
        ("printf '\\377\\n'", 0o755, "garbled"),
        ("echo fans 7", 0o775, "bad_mode"),
        ("echo fans 7", 0o644, "unreadable"),
    ],
)
def test_a_program_that_is_not_used(
    text: str, mode: int, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(programs, "RUN_S_MAX", 0.5 if "sleep" in text else 10.0)
    with pytest.raises(TextError) as error:
        trio.run(programs.page_of, program(tmp_path, text, mode=mode))
    assert error.value.reason == reason


async def test_no_process_of_a_slow_program_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(programs, "RUN_S_MAX", 0.5)
    path = program(tmp_path, f"sleep 1000 & echo $! > {tmp_path}/child; wait")
    with pytest.raises(TextError, match="did not end within"):
        await programs.page_of(path)
    pid = int((tmp_path / "child").read_text())
    await until(lambda: has_ended(pid), "the end of the child")


def has_ended(pid: int) -> bool:
    try:
        return "Z" in Path(f"/proc/{pid}/stat").read_text().split()[2]
    except FileNotFoundError:
        return True


def test_the_programs_of_a_directory(tmp_path: Path) -> None:
    for name, mode in (("b", 0o755), ("a", 0o755), (".hidden", 0o755), ("text", 0o644)):
        program(tmp_path, "true", name, mode)
    (tmp_path / "folder").mkdir()
    found = [os.path.basename(each) for each in programs.programs_in(str(tmp_path))]
    assert found == ["a", "b"]


# -- all sources --------------------------------------------------------------------------------------------


async def test_a_source_that_fails_costs_its_own_samples_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(programs, "RUN_S_MAX", 0.5)
    texts, sensors = tmp_path / "texts", tmp_path / "sensors"
    texts.mkdir()
    sensors.mkdir()
    (texts / "good.prom").write_text(PAGE)
    (texts / "half.prom").write_text("fans2 1")
    (texts / "ignored.txt").write_text("fans2 1\n")
    program(sensors, "echo water 3", "good")
    program(sensors, "sleep 1000", "slow")
    sources = Sources(("http://127.0.0.1:1/metrics",), str(texts), str(sensors))
    collector = Collector(sources, ["node_load1", "fans*", "jobs_per_second*", "water"])
    first = await collector.collect()
    assert set(first.samples) == {"node_load1", "fans", "water"}
    wrong = {(os.path.basename(each.source), each.reason) for each in first.wrong}
    assert wrong == {("half.prom", "garbled"), ("metrics", "missing"), ("slow", "slow")}
    collector._before = collector._before and collector._before._replace(at=collector._before.at - 10.0)
    (texts / "good.prom").write_text(PAGE.replace(" 7\n", " 27\n"))
    second = await collector.collect()
    assert 0 < second.samples['jobs_per_second{cluster="a",queue="b"}'] <= 2.0
    assert second.samples['jobs_per_second{cluster="a",queue="c"}'] == 0.0


async def test_a_directory_that_is_not_there_is_told(tmp_path: Path) -> None:
    found = await Collector(Sources(texts=str(tmp_path / "no")), ["node_load1"]).collect()
    assert [each.reason for each in found.wrong] == ["unreadable"]
    assert "node_load1" in found.samples


async def test_a_source_that_hangs_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collecting, "SOURCE_S_MAX", 0.2)
    hangs = trio.Event()

    async def forever(*_: object) -> object:
        await hangs.wait()
        raise AssertionError

    collector = Collector(Sources(("http://127.0.0.1:1/metrics",)), ["node_load1"])
    monkeypatch.setattr(collector, "_page", forever)
    monkeypatch.setattr(collecting, "_in_thread", lambda read, *words: read(*words) if read is forever else forever())
    found = await collector.collect()
    assert {each.reason for each in found.wrong} == {"slow"}
