"""The command `./dev mutants`: the sample, the tests of a mutant, the control, and the kept results."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import mutant_map
import mutant_measure
import mutant_sample
import pytest
from documents import imported
from mutant_sample import Mutant, sampled

from tests import mutants
from tests.mutants import KNOWN, TOP, Result, Trier, copied, known_survivors, still_good, summary, written

SOURCE = TOP / "subord" / "sealing" / "replay.py"
TESTS = ["tests/sealing/test_incarnation.py", "tests/sealing/test_sealer.py"]
RESULT = Result("core/a.py", "f", 3, 7, "a = 1", "a = 2", "tests", "tests/a.py::test_a", 1.5, "state")
MUTANT = Mutant("core/a.py", "f", 3, 7, "a = 1", "a = 2", "a = 2\n")


# -- the sample -----------------------------------------------------------------------------------------------------


def drawn(size: int, seed: int, path: Path = SOURCE) -> list[Mutant]:
    pytest.importorskip("mutmut", reason="mutmut is missing: `./dev mutants --help` installs the extra `mutants`")
    return sampled(mutant_sample.candidates(TOP, [path], Counter()), size, seed)


@pytest.mark.slow
def test_the_sample_depends_on_the_seed_alone_and_a_smaller_one_is_its_beginning() -> None:
    ten = drawn(10, 1)
    assert ten == drawn(10, 1) != drawn(10, 2)
    assert ten[:4] == drawn(4, 1)
    assert len({each.key for each in ten}) == 10
    whole = SOURCE.read_text(encoding="utf-8")
    for each in ten:
        compile(each.code, each.file, "exec")
        assert mutant_sample.changes(whole, each.code) == (each.line, each.before, each.after)
        assert each.line in range(1, len(whole.splitlines()) + 1)


@pytest.mark.slow
def test_an_edit_of_one_function_leaves_the_mutants_of_the_others(tmp_path: Path) -> None:
    pytest.importorskip("mutmut", reason="mutmut is missing: `./dev mutants --help` installs the extra `mutants`")
    other = tmp_path / "subord" / "core" / "a.py"
    other.parent.mkdir(parents=True)
    (tmp_path / "pyproject.toml").write_bytes((TOP / "pyproject.toml").read_bytes())
    (tmp_path / "subord" / "sealing").mkdir()

    def keys(text: str) -> set[tuple[str, str]]:
        other.write_text(text, encoding="utf-8")
        found = sampled(mutant_sample.candidates(tmp_path, [other], Counter()), 3, 1)
        return {(each.after, each.function) for each in found if each.function == "g"}

    g = "\n\ndef g(x):\n    return x + 1 if x < 2 else x - 3\n"
    assert keys("def f(x):\n    pass\n" + g) == keys("# a line more\ndef f(x):\n    '''Nothing.'''\n" + g) != set()


def test_excluded_mutants_are_counted(tmp_path: Path) -> None:
    pytest.importorskip("mutmut", reason="mutmut is missing: `./dev mutants --help` installs the extra `mutants`")
    path = tmp_path / "subord" / "core" / "a.py"
    path.parent.mkdir(parents=True)
    (tmp_path / "pyproject.toml").write_bytes((TOP / "pyproject.toml").read_bytes())
    (tmp_path / "subord" / "sealing").mkdir()
    path.write_text(
        "A = 1\n\n\ndef f():\n    if g():\n        raise ValueError('no', 1)\n    return 'two words', 'word'\n"
    )
    left_out: Counter[str] = Counter()
    found = sampled(mutant_sample.candidates(tmp_path, [path], left_out), 99, 1)
    assert {each.after for each in found} == {"return 'two words', 'XXwordXX'", "return 'two words', 'WORD'"}
    assert left_out[mutant_sample.OUTSIDE] == 2
    assert left_out[mutant_sample.SENTENCES] == 2
    assert left_out[mutant_sample.ERRORS] > 3


# -- which tests and seeds ------------------------------------------------------------------------------------------


def known_map() -> mutant_map.Map:
    tests = {"tests/core/test_a.py::near": 0.1, "tests/core/test_b.py::dear": 5.0, "tests/core/test_b.py::other": 0.1}
    functions = {"core/a.py:f": [0, 1], "core/a.py:g": []}
    whole = {"digest": "", "tests": tests, "left_out": [], "functions": functions}
    return {"shared": "", "number": 3, "files": {"tests/core/test_b.py": whole}, "seeds": {"ip": ["core/a.py:f"]}}


def test_a_mutant_is_tried_with_the_tests_that_run_its_function_and_then_the_seeds() -> None:
    known = known_map()
    found = mutant_map.stages(known, "core/a.py", "f", mutant_map.runs(known), 40)
    assert [each["tests"] for each in found] == [["tests/core/test_a.py::near"], ["tests/core/test_b.py::dear"], []]
    assert found[2]["seeds"] == [(0, "ip"), (1, "ip"), (2, "ip")]
    assert mutant_map.stages(known, "core/a.py", "g", {}, 40) == []


def test_the_tests_that_run_the_fewest_functions_come_first() -> None:
    known = known_map()
    (whole,) = known["files"].values()
    whole["functions"] |= {"core/a.py:h": [0, 2], "core/a.py:i": [0]}
    found = mutant_map.stages(known, "core/a.py", "h", mutant_map.runs(known), 40)
    assert found[0]["tests"] == ["tests/core/test_b.py::other", "tests/core/test_a.py::near"]
    whole["tests"] |= dict.fromkeys(whole["tests"], 41)
    assert mutant_map.stages(known, "core/a.py", "h", mutant_map.runs(known), 40) == [], (
        "too expensive, and no seed runs it"
    )


def test_one_of_each_test_function_comes_before_its_other_parameters() -> None:
    times = {"a.py::f[1]": 0.1, "a.py::f[2]": 0.2, "b.py::g": 3.0}
    assert mutant_map._mixed(list(times), times) == ["a.py::f[1]", "b.py::g", "a.py::f[2]"]


def test_seeds_go_by_another_mapping_where_ip_does_not_run_the_function() -> None:
    known = known_map()
    known["seeds"] |= {"latency": ["core/a.py:g"], "performance": ["core/a.py:g"]}
    (stage,) = mutant_map.stages(known, "core/a.py", "g", {}, 40)
    assert stage["seeds"] == [(0, "latency"), (1, "performance"), (2, "latency")]


def test_the_lines_of_a_function_are_those_of_its_body() -> None:
    source = "def f(\n    x=1,\n):\n    return x\n\n\nclass A:\n    def g(self):\n        pass\n        pass\n"
    assert mutant_measure.bodies(source) == {"f": range(4, 5), "A.g": range(9, 11)}


def test_a_failure_without_a_mutant_is_an_error() -> None:
    file, answers = TESTS[0], dict[str, Any]()

    def ask(request: dict[str, Any]) -> dict[str, Any]:
        name = f"{file}::test"
        found = {"tests": {name: 1.0}, "left_out": {}, "functions": {}, "failed": {}, "broken": []}
        return {**found, **answers} if "measure" in request else {"caught": "", "by": "", **answers}

    part = mutant_map.measured(([file], ""), TOP, 0, ask)
    assert part["files"][file]["tests"] == {f"{file}::test": 1.0}
    assert mutant_map.measured(([], "ip"), TOP, 3, ask)["seeds"] == {"ip": {}}
    answers |= {"failed": {"a::b": "why"}, "broken": ["S1 at seed 3"]}
    with pytest.raises(mutant_map.ControlError, match="without a mutant: a::b"):
        mutant_map.measured(([file], ""), TOP, 0, ask)
    with pytest.raises(mutant_map.ControlError, match="without a mutant: S1 at seed 3"):
        mutant_map.measured(([], "ip"), TOP, 3, ask)
    answers.clear()
    answers |= {"caught": "tests", "by": "test_a"}
    with pytest.raises(mutant_map.ControlError, match="without a mutant: tests: test_a"):
        mutant_map.measured(([file], ""), TOP, 0, ask)


@pytest.mark.slow
def test_only_what_changed_is_measured_again() -> None:
    fresh = mutant_map.fitting(None, TOP, 3)
    every = mutant_map.missing(fresh, TOP)
    files = [file for some, _ in every for file in some]
    assert files == list(mutant_map.test_files(TOP))
    assert [mapping for _, mapping in every if mapping] == ["ip", "latency", "performance"]
    fresh["files"] = {file: {"digest": mutant_map.test_files(TOP)[file]} for file in files}
    fresh["files"][files[4]]["digest"] = "of another text"
    fresh["seeds"] = {"ip": [], "latency": []}
    assert mutant_map.missing(mutant_map.fitting(fresh, TOP, 3), TOP) == [([], "performance"), ([files[4]], "")]
    assert mutant_map.missing(mutant_map.fitting(fresh, TOP, 4), TOP) == every


# -- trials, in a copy ----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def trier(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trier]:
    found = Trier(copied(TOP, tmp_path_factory.mktemp("mutants") / "copy"))
    yield found
    found.close()


def stage(tests: list[str], seeds: list[tuple[int, str]], cpu_s: float = 60) -> dict[str, Any]:
    return {"tests": tests, "seeds": seeds, "cpu_s": cpu_s}


@pytest.mark.slow
def test_the_tests_are_measured_and_pass_without_a_mutant(trier: Trier) -> None:
    pytest.importorskip("coverage", reason="coverage is missing: `./dev mutants --help` installs the extra `mutants`")
    found = trier.ask({"measure": [TESTS[0]], "seeds": 0, "mapping": ""})
    assert (found["code"], found["failed"], found["left_out"]) == (0, {}, {})
    assert any(name.startswith("sealing/incarnation.py:") for name in found["functions"])
    answer = trier.ask({"file": "", "code": None, "stages": [stage(list(found["tests"]), [])]})
    assert (answer["caught"], answer["by"]) == ("", "")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("code", "cpu_s", "caught", "by"),
    [
        ("1 / 0\n", 60, "tests", "the collection of the tests"),
        ("while True:\n    pass\n", 1, "time", "the tests, 1 s"),
    ],
)
def test_a_fault_is_caught_and_the_module_is_as_before(
    trier: Trier, code: str, cpu_s: float, caught: str, by: str
) -> None:
    request = {"file": "sealing/replay.py", "stages": [stage([f"{TESTS[1]}::test"], [], cpu_s)]}
    answer = trier.ask({**request, "code": code})
    assert (answer["caught"], answer["by"]) == (caught, by)


@pytest.mark.slow
def test_a_campaign_catches_a_mutant(trier: Trier) -> None:
    path = TOP / "subord" / "core" / "edges" / "slots.py"
    whole = path.read_text(encoding="utf-8")
    code = whole.replace("if len(guests) < self._mapping.guest_places:", "if True:")
    assert code != whole
    request = {"file": "core/edges/slots.py", "stages": [stage([], [(seed, "ip") for seed in range(50)])]}
    answer = trier.ask({**request, "code": code})
    assert answer["caught"] == "campaign"
    assert answer["by"].startswith("S3 at seed ")
    request["stages"] = [stage([], [(0, "ip")])]
    assert trier.ask({**request, "code": whole})["caught"] == "", "not without the fault"


# -- results --------------------------------------------------------------------------------------------------------


def test_results_are_read_back_and_a_truncated_line_is_skipped(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    assert written(path) == {}
    later = replace(RESULT, caught="", by="")
    path.write_text("".join(json.dumps(asdict(each)) + "\n" for each in (RESULT, later)) + '{"file": "co')
    assert written(path) == {RESULT.key: later}


def test_a_stopped_run_continues() -> None:
    assert still_good(MUTANT, RESULT, "state", survivors=False)
    assert not still_good(MUTANT, RESULT, "another", survivors=False)
    assert not still_good(MUTANT, None, "state", survivors=False)
    assert not still_good(replace(MUTANT, after="a = 3"), RESULT, "state", survivors=False)
    assert still_good(MUTANT, RESULT, "another", survivors=True)
    assert not still_good(MUTANT, replace(RESULT, caught=""), "state", survivors=True)


def test_each_survivor_is_listed_with_its_note(monkeypatch: pytest.MonkeyPatch) -> None:
    survivor = replace(RESULT, caught="", by="")
    monkeypatch.setattr(mutants, "known_survivors", lambda: {survivor.text: {"kind": "equivalent", "why": "so"}})
    output = summary([RESULT, survivor, replace(survivor, after="a = 3")])
    assert output[0] == "1 of 3 mutants were caught (33.3 %): tests 1, campaign 0, time limit 0; 4 s"
    assert output[1] == "core/a.py:7 f: a = 1 -> a = 2 [1.5 s, SURVIVED]"
    assert output[2::2] == ["    equivalent: so", "    not judged yet"]


def test_the_table_lists_each_survivor(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    build = imported("build_mutants")
    results = [RESULT, replace(RESULT, caught="", before="x | y"), replace(RESULT, caught="", after="")]
    about = {
        "possible": 8764,
        "left_out": {"texts": 1200},
        "seed": 1,
        "seeds": 50,
        "tests": 2000,
        "tests_left_out": 9,
    }
    document = json.loads(mutants.document(results, about))
    assert len(document["mutants"]) == 3
    known = tmp_path / "mutants.toml"
    known.write_text(
        '[[survivor]]\nfile = "core/a.py"\nfunction = "f"\nbefore = "x | y"\nafter = "a = 2"\n'
        'kind = "equivalent"\nwhy = "both are 1"\n'
    )
    monkeypatch.setattr(build, "KNOWN", known)
    monkeypatch.setattr(build, "read", lambda _: document)
    assert (
        "3 of 8,764 mutants, drawn with seed 1, against 2,000 tests and 50 campaign seeds: 1 were" in build.caught()
    )
    assert "| nothing: equivalent | 1 |" in build.caught()
    assert "| texts | 1,200 |" in build.left_out()
    assert build.survivors().splitlines()[2:] == [
        "| `core/a.py`, `f` | <code>x&#32;&#124;&#32;y</code> | `` a = 2 `` | equivalent: both are 1 |",
        "| `core/a.py`, `f` | `` a = 1 `` | (left out) | not judged: no line in tests/mutants.toml |",
    ]


def test_every_note_on_a_survivor_is_complete_and_up_to_date() -> None:
    """A line whose text is no longer in the function is out of date and can be deleted."""
    for file, function, before, _ in known_survivors():
        source = (TOP / "subord" / file).read_text(encoding="utf-8")
        lines = source.splitlines()
        body = mutant_measure.bodies(source)[function]
        assert before in " ".join(map(str.strip, lines[: body.stop - 1])), (
            f"{KNOWN.name}: {file}: {function}: {before}"
        )
    for entry in known_survivors().values():
        assert entry["kind"] in ("equivalent", "missing")
        assert entry["why"]
