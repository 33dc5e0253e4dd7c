"""Samples of exporters, text files and programs: what is told, and what each fault costs."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
import trio
from conditions import until
from loops import over

from subord.services.metrics import collecting, programs, reading
from subord.services.metrics.collecting import Collector, Sources
from subord.services.metrics.kernel import Samples
from subord.services.metrics.texts import SAMPLES_MAX, TextError, samples_of
from subord.services.metrics.wanted import USUAL

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
        (
            "# TYPE fans counter\nfans{a=" + '"' + "x" * 44 + '"} 1\n',
            "too_large",
            "a name of more than 60 characters",
        ),
        ('fans{a="\x1b[31m"} 1\n', "garbled", "cannot be printed"),
        ("".join(f'fans{{a="{n}"}} 1\n' for n in range(SAMPLES_MAX + 1)), "too_large", "wanted samples"),
    ],
)
def test_a_page_that_is_not_used(text: str, reason: str, said: str) -> None:
    with pytest.raises(TextError, match=said) as error:
        samples_of(text, wants("fans"))  # type: ignore[arg-type]
    assert error.value.reason == reason


def test_a_name_that_the_parser_takes_and_no_other_program_would() -> None:
    for text in ('é,fans{a="b"} 3\n', 'fans-b{a="b"} 3\n'):
        with pytest.raises(TextError, match="none of a metric"):
            samples_of(text, lambda _: True)


def test_labels_that_nobody_wants_cost_nothing() -> None:
    text = "".join(f'others{{a="{n}"}} 1\n' for n in range(50_000)) + "fans 1\n"
    assert samples_of(text, wants("fans")) == {"fans": 1.0}  # type: ignore[arg-type]


# -- programs -----------------------------------------------------------------------------------------------


def program(folder: Path, text: str, name: str = "sensor", mode: int = 0o755) -> str:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(mode)
    return str(path)


async def page_of(path: str) -> str:
    programs.demand_safe(path)
    return await programs.Programs().page_of(path)


async def test_a_program_tells_its_page(tmp_path: Path) -> None:
    assert await page_of(program(tmp_path, "echo fans 7; pwd; env | wc -l >&2")) == "fans 7\n/\n"


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
        trio.run(page_of, program(tmp_path, text, mode=mode))
    assert error.value.reason == reason


async def test_no_process_of_a_slow_program_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(programs, "RUN_S_MAX", 0.5)
    path = program(tmp_path, f"sleep 1000 & echo $! > {tmp_path}/child; wait")
    with pytest.raises(TextError, match="did not end within"):
        await page_of(path)
    pid = int((tmp_path / "child").read_text())
    await until(lambda: has_ended(pid), "the end of the child")


@pytest.mark.parametrize("output", ["", ">/dev/null"])
async def test_no_process_is_left_of_a_program_that_has_ended(
    output: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(programs, "RUN_S_MAX", 0.5 if not output else 10.0)
    path = program(tmp_path, f"sleep 1000 {output} & echo $! > {tmp_path}/child; echo fans 7")
    with nullcontext() if output else pytest.raises(TextError, match="did not end within"):
        assert await page_of(path) == "fans 7\n"
    pid = int((tmp_path / "child").read_text())
    await until(lambda: has_ended(pid), "the end of the child")


async def test_a_program_may_end_after_its_output(tmp_path: Path) -> None:
    assert await page_of(program(tmp_path, "echo fans 7; exec >&-; sleep 0.2; exit 0")) == "fans 7\n"
    with pytest.raises(TextError, match="ended with 3"):
        await page_of(program(tmp_path, "echo fans 7; exec >&-; sleep 0.2; exit 3"))


async def test_a_program_is_waited_for_without_descriptors_of_processes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def old(_: int) -> int:
        raise OSError(38, "Function not implemented")

    monkeypatch.setattr(os, "pidfd_open", old)
    assert await page_of(program(tmp_path, "echo fans 7; exec >&-; sleep 0.2")) == "fans 7\n"


async def test_a_program_that_the_kernel_does_not_end_is_not_started_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(programs, "RUN_S_MAX", 0.3)
    monkeypatch.setattr(programs, "END_S_MAX", 0.1)
    killed: list[int] = []
    kill = os.killpg
    monkeypatch.setattr(os, "killpg", lambda group, _: killed.append(group))
    path, found = program(tmp_path, f"echo >> {tmp_path}/starts; exec sleep 1000"), programs.Programs()
    for _ in range(3):
        with pytest.raises(TextError, match="did not end within"):
            await found.page_of(path)
    assert (tmp_path / "starts").read_text() == "\n"
    monkeypatch.setattr(os, "killpg", kill)
    kill(killed[0], signal.SIGKILL)
    await until(lambda: has_ended(killed[0]), "the end of the process")
    with pytest.raises(TextError, match="did not end within"):
        await found.page_of(path)
    assert (tmp_path / "starts").read_text() == "\n\n"


def refusal(path: Path) -> str:
    with pytest.raises(TextError) as error:
        programs.demand_safe(str(path))
    return error.value.reason


def test_who_can_change_a_program(tmp_path: Path) -> None:
    good = Path(program(tmp_path, "true"))
    programs.demand_safe(str(good))
    link = tmp_path / "link"
    link.symlink_to(good)
    programs.demand_safe(str(link))
    folder = tmp_path / "folder"
    folder.mkdir()
    inside = Path(program(folder, "true"))
    link.unlink()
    link.symlink_to(inside)
    folder.chmod(0o777)
    assert refusal(inside) == refusal(link) == "bad_mode", "others may put another file in its place"
    with pytest.raises(TextError, match="other users can change it"):
        programs.programs_in(str(folder))
    folder.chmod(0o1777)
    programs.demand_safe(str(inside))
    assert refusal(folder / "no") == "unreadable"
    if os.geteuid() == 0:
        os.chown(link, 65534, 65534, follow_symlinks=False)
        assert refusal(link) == "bad_mode", "another user has chosen what is run"


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


def earlier(collector: Collector, apart_s: float = 10.0) -> None:
    """As if the last round had been earlier."""
    collector._before = {source: each._replace(at=each.at - apart_s) for source, each in collector._before.items()}


@pytest.fixture
def folders(tmp_path: Path) -> tuple[Path, Path]:
    """Of text files, and of programs."""
    texts, sensors = tmp_path / "texts", tmp_path / "sensors"
    texts.mkdir()
    sensors.mkdir()
    return texts, sensors


async def test_a_source_that_fails_costs_its_own_samples_only(
    folders: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(programs, "RUN_S_MAX", 0.5)
    texts, sensors = folders
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
    earlier(collector)
    (texts / "good.prom").write_text(PAGE.replace(" 7\n", " 27\n"))
    second = await collector.collect()
    assert 0 < second.samples['jobs_per_second{cluster="a",queue="b"}'] <= 2.0
    assert second.samples['jobs_per_second{cluster="a",queue="c"}'] == 0.0


async def test_a_directory_that_is_not_there_is_told(tmp_path: Path) -> None:
    found = await Collector(Sources(texts=str(tmp_path / "no")), ["node_load1"]).collect()
    assert [each.reason for each in found.wrong] == ["unreadable"]
    assert "node_load1" in found.samples


@pytest.fixture
def hanging() -> Iterator[Callable[..., object]]:
    """What blocks in a thread until the test ends."""
    ends = threading.Event()

    def hang(*_: object) -> object:
        ends.wait(60)
        return {}

    yield hang
    ends.set()


@pytest.mark.slow
async def test_a_source_that_hangs_costs_no_other_in_any_round(
    tmp_path: Path, hanging: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(collecting, "SOURCE_S_MAX", 2.0)  # in the first round only
    monkeypatch.setattr(reading, "file_systems", hanging)
    (tmp_path / "good.prom").write_text("fans 7\n")
    before = threading.active_count()
    collector = Collector(Sources(texts=str(tmp_path)), ["node_load1", "node_filesystem_*", "fans"])
    for _ in range(12):
        found = await collector.collect()
        assert found.samples.keys() == {"node_load1", "fans"}
        assert [(each.source, each.reason) for each in found.wrong] == [("file systems", "slow")]
    assert threading.active_count() <= before + 3, "one thread hangs"


async def test_a_directory_that_hangs_is_given_up(
    tmp_path: Path, hanging: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(collecting, "SOURCE_S_MAX", 0.2)
    monkeypatch.setattr(collecting, "programs_in", hanging)
    with trio.fail_after(10):
        found = await Collector(Sources(sensors=str(tmp_path)), ["node_load1"]).collect()
    assert found.samples.keys() == {"node_load1"}
    assert [each.reason for each in found.wrong] == ["slow"]


async def test_a_rate_is_taken_over_the_time_between_two_readings(
    folders: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A slow program makes a round long, and not the rates of others low."""
    monkeypatch.setattr(programs, "RUN_S_MAX", 1.0)
    texts, sensors = folders
    (texts / "good.prom").write_text("jobs_total 0\n")
    collector = Collector(Sources(texts=str(texts), sensors=str(sensors)), ["jobs_per_second"])
    await collector.collect()
    earlier(collector, 1.0)
    program(sensors, "sleep 1000")
    (texts / "good.prom").write_text("jobs_total 100\n")
    found = await collector.collect()
    assert found.samples["jobs_per_second"] > 80


async def test_the_kernel_has_its_own_names_and_sources_do_not_share_one(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / f"{name}.prom").write_text(f"node_load1 777\nfans {ord(name)}\n")
    collector = Collector(Sources(texts=str(tmp_path)), ["node_load1", "fans"])
    for _ in range(5):
        found = await collector.collect()
        assert found.samples["node_load1"] != 777
        assert found.samples["fans"] == ord("a")
        (wrong,) = found.wrong
        assert (os.path.basename(wrong.source), wrong.reason) == ("b.prom", "collides")
        assert "has fans like" in wrong.text


async def test_one_fault_is_one_problem_whatever_a_source_says(tmp_path: Path) -> None:
    odd = tmp_path / os.fsdecode(b"\xff\x1b[31m.prom")
    collector = Collector(Sources(texts=str(tmp_path)), ["fans"])
    said = set()
    for text in ("fans 1\nfans 2\n", "fans garbage-1\n", "other 1\nfans garbage-2\n"):
        odd.write_text(text)
        (wrong,) = (await collector.collect()).wrong
        assert wrong.source.isprintable()
        wrong.source.encode()
        said.add(wrong)
    assert len(said) == 1
    odd.write_text("fans 1\n")
    assert not (await collector.collect()).wrong
    odd.write_text("other 1\nfans garbage\n")
    (wrong,) = (await collector.collect()).wrong
    assert wrong.text == "is not in the Prometheus text format: line 2", "and not what stands there"


async def test_a_text_file_that_nothing_writes_any_more_can_be_seen(tmp_path: Path) -> None:
    (tmp_path / "fans.prom").write_text("fans 1\n")
    os.utime(tmp_path / "fans.prom", (1000.0, 2000.0))
    collector = Collector(Sources(texts=str(tmp_path)), ["fans", "node_textfile_mtime_seconds*"])
    name = 'node_textfile_mtime_seconds{file="fans.prom"}'
    assert (await collector.collect()).samples == {"fans": 1.0, name: 2000.0}
    collector.patterns = ["fans"]
    assert (await collector.collect()).samples == {"fans": 1.0}


async def test_what_has_no_room_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collecting, "TEXTS_MAX", 2)
    monkeypatch.setattr(collecting, "SAMPLES_MAX", 100)
    for name, count in (("a", 50), ("b", 80), ("c", 1)):
        (tmp_path / f"{name}.prom").write_text("".join(f'{name}{{n="{n}"}} 1\n' for n in range(count)))
    found = await Collector(Sources(texts=str(tmp_path)), ["a*"]).collect()
    assert {(os.path.basename(each.source), each.reason) for each in found.wrong} == {
        (tmp_path.name, "too_many"),
        ("the plan", "too_many"),
    }
    found = await Collector(Sources(texts=str(tmp_path)), ["b*", "a*"]).collect()
    assert ("b.prom", "too_large") in {(os.path.basename(each.source), each.reason) for each in found.wrong}


async def test_pages_are_parsed_in_threads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A large one takes a second, and the daemon must not wait for it."""
    threads = set[int]()

    def parsed(*words: Any) -> Samples:
        threads.add(threading.get_ident())
        return samples_of(*words)

    monkeypatch.setattr(collecting, "samples_of", parsed)
    program(tmp_path, "echo fans 7")
    found = await Collector(Sources(sensors=str(tmp_path)), ["fans"]).collect()
    assert found.samples == {"fans": 7.0}
    assert threads
    assert threading.get_ident() not in threads


async def test_the_page_of_a_node_exporter_is_used_with_the_usual_patterns(tmp_path: Path) -> None:
    (tmp_path / "node.prom").write_text(
        'node_filesystem_avail_bytes{device="/dev/mapper/vg-root",fstype="ext4",mountpoint="/"} 5\n'
        "node_hwmon_temp_celsius 33\n"
    )
    found = await Collector(Sources(texts=str(tmp_path)), USUAL).collect()
    assert not found.wrong
    assert found.samples["node_hwmon_temp_celsius"]
