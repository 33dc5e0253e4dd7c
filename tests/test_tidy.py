"""Rules that a program can check: short functions and files, forbidden words and calls, imports, docstrings."""

from __future__ import annotations

import ast
import functools
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest
from scheduling import COMPUTING, FIRST

from subord.core.mapping.registry import MAPPINGS

TOP = Path(__file__).parent.parent
FUNCTION_LINES_MAX = 60
FILE_LINES_MAX = 450
FOLDER_MODULES_MAX = 18
FOLDERS = ("subord", "netns-lab", "deploy")
CODE = sorted(
    [*(path for each in FOLDERS for path in TOP.glob(f"{each}/**/*.py")), TOP / "netns-lab/lab", TOP / "dev"]
)
PYTHON = [path for path in CODE if path.suffix == ".py"]
CORE = [path for path in PYTHON if path.is_relative_to(TOP / "subord" / "core")]
TESTS = sorted(TOP.glob("tests/**/*.py"))
SYNONYMS = re.compile(r"(^|_)(parent|child|children|master|superior|slave|worker)s?(_|$)", re.IGNORECASE)
CLOCKS_AND_CHANCE = re.compile(
    r"\btime\.(time|monotonic|sleep)\(|\bdatetime\.|\brandom\.\w+|import random\b|\buuid\b|os\.urandom"
)
# Split so that this file does not match.
MACHINE_PATHS = re.compile("/" + "(home|Users|root|work)/" + r"\w")


MODULE_PATHS = re.compile(r"(?<![\w./-])[a-z_]+(?:/[a-z_]+)*/[a-z_]+\.py\b")
ROOTS = (
    "",
    "tests",
    "netns-lab",
    "netns-lab/netlab",
    "subord",
    *(f"subord/{each}" for each in ("core", "runtime", "sim", "api")),
)


def name(path: Path) -> str:
    return str(path.relative_to(TOP))


def statements(node: ast.AST) -> Iterator[ast.AST]:
    """All below it, without the expressions in them."""
    for each in ast.iter_child_nodes(node):
        if isinstance(each, ast.stmt | ast.excepthandler | ast.match_case):
            yield each
            yield from statements(each)


@functools.cache
def outline(source: str) -> tuple[str | None, tuple[tuple[str, int], ...]]:
    """The docstring of a module, and each function with its number of lines, including decorators and docstring."""
    module, found = ast.parse(source), []
    for node in statements(module):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert node.end_lineno is not None
            found.append((node.name, node.end_lineno - node.lineno + 1))
    return ast.get_docstring(module), tuple(found)


def identifiers(source: str) -> set[str]:
    """Every name in the code: variables, attributes, arguments, functions, classes."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        for field in ("id", "attr", "arg", "name", "asname"):
            value = getattr(node, field, None)
            if isinstance(value, str):
                found.add(value)
    return found


def mappings_named(source: str) -> set[str]:
    """The mappings that the code names: their strings and classes, and questions such as `by_latency`."""
    strings = {each.value for each in ast.walk(ast.parse(source)) if isinstance(each, ast.Constant)}
    classes = {kind.__name__ for kind in MAPPINGS.values()}
    return (strings & MAPPINGS.keys()) | (identifiers(source) & (classes | {f"by_{each}" for each in MAPPINGS}))


def offenders(paths: Iterable[Path], complaint: Callable[[str], object]) -> dict[str, object]:
    """The files with a complaint, and the complaint."""
    found = {name(path): complaint(path.read_text(encoding="utf-8")) for path in paths}
    return {file: reason for file, reason in found.items() if reason}


def test_functions_are_short() -> None:
    def long(source: str) -> dict[str, int]:
        return {function: lines for function, lines in outline(source)[1] if lines > FUNCTION_LINES_MAX}

    assert offenders(PYTHON, long) == {}


def test_files_are_short() -> None:
    assert offenders(CODE, lambda source: max(0, len(source.splitlines()) - FILE_LINES_MAX)) == {}


def test_folders_are_small() -> None:
    modules = Counter(name(path.parent) for path in PYTHON)
    assert {folder: count for folder, count in modules.items() if count > FOLDER_MODULES_MAX} == {}


def test_every_module_has_a_docstring() -> None:
    assert offenders(PYTHON, lambda source: source and not outline(source)[0]) == {}


def test_the_core_uses_the_words_of_the_paper() -> None:
    assert offenders(CORE, lambda source: {each for each in identifiers(source) if SYNONYMS.search(each)}) == {}


def test_the_core_has_neither_clock_nor_chance_of_its_own() -> None:
    assert offenders(CORE, CLOCKS_AND_CHANCE.findall) == {}


def test_the_core_asks_a_mapping_what_it_does_and_not_for_its_name() -> None:
    others = [path for path in CORE if path.parent.name != "mapping"]
    assert offenders(others, mappings_named) == {"subord/core/settings.py": {"ip"}}, "but for the default"


def test_modules_that_texts_name_exist() -> None:
    def missing(source: str) -> set[str]:
        return {
            each for each in MODULE_PATHS.findall(source) if not any((TOP / root / each).exists() for root in ROOTS)
        }

    texts = [
        *PYTHON,
        TOP / "README.md",
        *TOP.glob("docs/*.md"),
        *TOP.glob("docs/*/*.md"),
        TOP / "netns-lab/README.md",
    ]
    assert offenders(texts, missing) == {}


def test_no_path_of_one_machine() -> None:
    assert offenders([*CODE, *TESTS], MACHINE_PATHS.findall) == {}


def test_an_offender_is_named() -> None:
    assert offenders(CODE[:1], len) == {name(CODE[0]): len(CODE[0].read_text(encoding="utf-8"))}


def test_names_of_test_modules_are_unique() -> None:
    stems = [path.stem for path in TESTS if path.stem.startswith("test_")]
    assert sorted(stems) == sorted(set(stems))


def test_the_order_of_tests_names_what_exists() -> None:
    """A file that is renamed would start last, unnoticed."""
    there = {path.name for path in TESTS} | {path.name for path in (TOP / "tests").iterdir() if path.is_dir()}
    assert {*FIRST, *COMPUTING} <= there
    assert len(set(FIRST)) == len(FIRST)


@pytest.mark.parametrize("folder", [".", "netns-lab"])
def test_imports_point_inward(folder: str) -> None:
    """The contracts of pyproject.toml and of netns-lab/.importlinter, checked by import-linter."""
    command, place = Path(sys.executable).with_name("lint-imports"), TOP / folder
    ran = subprocess.run([command, "--no-cache"], cwd=place, capture_output=True, text=True, timeout=120, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert re.search(r"Contracts: [1-9]\d* kept, 0 broken", ran.stdout), ran.stdout


@pytest.mark.parametrize(
    ("pattern", "guilty", "innocent"),
    [
        (SYNONYMS, ["parent", "child_of", "the_master", "superiors", "Children"], ["leader", "apparent", "mastery"]),
        (
            CLOCKS_AND_CHANCE,
            ["time.time()", "random.random()", "import random"],
            ["from random import Random", "own_time(1)"],
        ),
        (MACHINE_PATHS, ["/" + "home/me/x", '"/' + 'work/main"'], ["/run/subord", "framework/x", "~/home"]),
    ],
)
def test_the_patterns_see_what_they_should(pattern: re.Pattern[str], guilty: list[str], innocent: list[str]) -> None:
    assert all(pattern.search(each) for each in guilty)
    assert not any(pattern.search(each) for each in innocent)


def test_long_functions_and_names_are_seen() -> None:
    source = "def f(parent):\n" + "    x = 1\n" * 70
    assert outline(source) == (None, (("f", 71),))
    assert identifiers(source) == {"f", "parent", "x"}


def test_a_named_mapping_is_seen() -> None:
    source = 'from a import ByAddress as b\nif m.by_latency or m == "ip":\n    """By latency."""'
    assert mappings_named(source) == {"ByAddress", "by_latency", "ip"}
