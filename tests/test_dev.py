"""./dev: what each command installs, and what it says when pip cannot."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

TOP = Path(__file__).parents[1]
FAKE_PYTHON = """#!/bin/sh
# Makes environments whose Python and tools only write down what they are told.
TOOLS="mkdocs ruff mypy lint-imports uv pip"
case "$*" in
  "-m venv "*) mkdir -p "$3/bin"; for each in python subord $TOOLS; do cp "$0" "$3/bin/$each"; done ;;
  --version) echo "Python 3.13.9" ;;
  -c*) ;;
  "config list") if [ -n "$PIP_NO_INDEX" ]; then echo ":env:.no-index='$PIP_NO_INDEX'"; seq 20000; fi ;;
  "config get "*) exit 1 ;;
  "-m pytest -n"*) echo "$(basename "$0") $*" >> "$TOLD"; echo "$TMPDIR" > "$TOLD.in" ;;
  *) echo "$(basename "$0") $*${PYTHONDONTWRITEBYTECODE:+, and compiles each time}" >> "$TOLD" ;;
esac
"""
FAKE_PKG_CONFIG = """#!/bin/sh
# Knows libvirt where there is a file of this name.
[ -e "$(dirname "$0")/libvirt" ]
"""
WORKERS = "-n 6 --dist loadgroup --no-loadscope-reorder --max-worker-restart=0"
PIP = "python -m pip install --quiet --disable-pip-version-check --no-compile"
GET_UV = re.compile(rf"{PIP} --retries 1 --only-binary uv uv==[\d.]+")
UV = "uv --no-config --system-certs pip install --quiet"
INSTALL = f"{UV} --python .venv/bin/python --constraint constraints.txt --editable "

Typed = Callable[..., list[str]]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A copy of what ./dev needs before it has installed anything."""
    for name in ("dev", "pyproject.toml", "constraints.txt"):
        shutil.copy(TOP / name, tmp_path)
    return tmp_path


@pytest.fixture
def typed(project: Path) -> Typed:
    """Gives words to ./dev, where Python is fake; what it then tells the Python of .venv, and the tools there. Each
    installation gets uv first."""
    fake = project / "bin" / "python3.13"
    fake.parent.mkdir()
    fake.write_text(FAKE_PYTHON)
    fake.chmod(0o755)
    (fake.parent / "pkg-config").write_text(FAKE_PKG_CONFIG)
    (fake.parent / "pkg-config").chmod(0o755)
    told = project / "told"

    def give(*words: str, **settings: str) -> list[str]:
        told.write_text("")
        environment = {"PATH": f"{fake.parent}:{os.environ['PATH']}", "TOLD": str(told), **settings}
        subprocess.run([project / "dev", *words], env=environment, check=True, capture_output=True, timeout=60)
        lines = told.read_text().splitlines()
        assert all(GET_UV.fullmatch(lines[number - 1]) for number, line in enumerate(lines) if INSTALL in line)
        return [line for line in lines if not GET_UV.fullmatch(line)]

    return give


def test_the_demo_installs_what_the_demo_needs(typed: Typed) -> None:
    assert typed("demo") == [f"{INSTALL}.[lab]", "python netns-lab/lab demo"]
    assert typed("demo", "--nodes", "9") == ["python netns-lab/lab demo --nodes 9"]


@pytest.mark.parametrize("failing", ['"python -m pip install"*uv==*', '"uv --no-config"*'])
def test_pip_installs_where_uv_cannot(project: Path, typed: Typed, failing: str) -> None:
    fake = project / "bin" / "python3.13"
    fails = f'case "$(basename "$0") $*" in {failing}) exit 1 ;; esac\n'
    fake.write_text(FAKE_PYTHON.replace('case "$*"', fails + 'case "$*"', 1))
    assert typed("demo")[-2:] == [
        f"{PIP} --constraint constraints.txt --editable .[lab]",
        "python netns-lab/lab demo",
    ]


def test_uv_is_not_asked_where_pip_may_ask_no_index(typed: Typed) -> None:
    assert typed("demo", PIP_NO_INDEX="1")[0] == f"{PIP} --constraint constraints.txt --editable .[lab]"


def test_another_python_may_be_given(project: Path, typed: Typed) -> None:
    (project / "bin" / "python3.13").rename(project / "bin" / "mine")
    assert typed("demo", PYTHON="mine") == [f"{INSTALL}.[lab]", "python netns-lab/lab demo"]


def test_a_python_that_cannot_be_used_is_named(project: Path, typed: Typed) -> None:
    with pytest.raises(subprocess.CalledProcessError) as failed:
        typed("demo", PYTHON="nonsense")
    assert b"in $PYTHON, which is nonsense" in failed.value.stderr
    assert not (project / ".venv").exists()


def test_another_command_adds_what_it_needs(typed: Typed) -> None:
    assert typed("campaign", "--seeds", "3") == [f"{INSTALL}.", "subord simulate --seeds 3"]
    assert typed("docs")[0] == f"{INSTALL}.[docs]"
    assert typed("setup") == [f"{INSTALL}.[lab,dev,mutants]"]
    assert typed("setup") == []


def test_what_is_compiled_is_added_where_that_can_be_done(project: Path, typed: Typed) -> None:
    cc = project / "bin" / "cc"
    cc.write_text("")
    cc.chmod(0o755)
    typed("setup")
    (project / "bin" / "libvirt").touch()
    assert typed("setup") == [f"{INSTALL}.[machines]"]
    assert typed("setup") == []


def test_what_python_compiles_is_kept(typed: Typed) -> None:
    assert typed("campaign", PYTHONDONTWRITEBYTECODE="1") == [f"{INSTALL}.", "subord simulate"]


def test_the_tests_of_a_fresh_clone_are_compiled_before_the_workers_start(project: Path, typed: Typed) -> None:
    (project / "netns-lab").mkdir()
    compiling, testing = (f"python -m pytest {words}" for words in ("--collect-only", WORKERS))
    told = typed("test")
    assert told.index(compiling) < told.index(testing)
    (project / "tests" / "__pycache__").mkdir(parents=True)
    told = typed("test")
    assert compiling not in told
    assert testing in told


@pytest.mark.parametrize(
    ("mount", "given", "found"),  # its options, and the MiB that are free
    [
        (("rw,nosuid,nodev", 9000), "", "/dev/shm"),
        (("rw,nosuid,nodev", 900), "", ""),
        (("rw,nosuid,nodev", "-"), "", ""),
        (("", 9000), "", ""),
        (("rw,nosuid,nodev,noexec", 9000), "", ""),
        (("rw,nosuid,nodev", 9000), "/var/tmp", "/var/tmp"),
    ],
)
def test_files_of_tests_are_in_memory_where_they_fit_and_run(
    project: Path, typed: Typed, mount: tuple[str, int | str], given: str, found: str
) -> None:
    for name, said in (("findmnt", mount[0]), ("df", f"Avail\n{mount[1]}")):
        program = project / "bin" / name
        program.write_text(f"#!/bin/sh\necho '{said}'\n")
        program.chmod(0o755)
    (project / "netns-lab").mkdir()
    typed("test", TMPDIR=given)
    assert (project / "told.in").read_text() == f"{found}\n"


DIES = """
import os, pytest

@pytest.mark.parametrize("number", range(400))
def test_it(number):
    if number == 200:
        os.abort()
"""
GROUPS = """
import pytest

def pytest_collection_modifyitems(items):
    for each in items:
        each.add_marker(pytest.mark.xdist_group(each.name))
"""


@pytest.mark.slow
def test_a_worker_that_dies_ends_the_run_and_is_named(tmp_path: Path) -> None:
    """One in its place would get the groups that are done, and all would wait for ever (pytest-xdist 3.8)."""
    (tmp_path / "test_dies.py").write_text(DIES)
    (tmp_path / "conftest.py").write_text(GROUPS)
    words = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--rootdir", ".", *WORKERS.split()]
    ran = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=120)
    assert ran.returncode == 1
    assert "crashed while running 'test_dies.py::test_it[200]'" in ran.stdout


@pytest.mark.parametrize("name", ["pyproject.toml", "constraints.txt"])
def test_other_versions_make_a_new_environment(project: Path, typed: Typed, name: str) -> None:
    typed("setup")
    with (project / name).open("a") as file:
        file.write("\n")
    assert typed("demo")[0] == f"{INSTALL}.[lab]"
    assert typed("setup") == [f"{INSTALL}.[dev,docs,mutants]"]


def test_a_moved_clone_makes_a_new_environment(project: Path, typed: Typed) -> None:
    typed("demo")
    moved = project / "moved to"
    moved.mkdir()
    for name in ("dev", "pyproject.toml", "constraints.txt", ".venv"):
        (project / name).rename(moved / name)
    (project / "told").write_text("")
    environment = {"PATH": f"{project}/bin:{os.environ['PATH']}", "TOLD": str(project / "told")}
    subprocess.run([moved / "dev", "demo"], env=environment, check=True, capture_output=True, timeout=60)
    assert f"{INSTALL}.[lab]" in (project / "told").read_text().splitlines()


@pytest.mark.parametrize("script", ["dev", ".ci/run"])
def test_no_known_mistake_of_shells(script: str) -> None:
    if shutil.which("shellcheck") is None:
        pytest.skip("no `shellcheck` here: apt-get install shellcheck")
    ran = subprocess.run(["shellcheck", TOP / script], capture_output=True, text=True, check=False, timeout=60)
    assert ran.returncode == 0, ran.stdout


def test_checks_that_fail_are_shown_and_named(project: Path, typed: Typed) -> None:
    (project / "netns-lab").mkdir()
    typed("setup")
    for each in ("mypy", "lint-imports"):
        (project / ".venv" / "bin" / each).write_text(f"#!/bin/sh\necho {each} complains; exit 3\n")
    environment = {"PATH": f"{project}/bin:{os.environ['PATH']}", "TOLD": str(project / "told")}
    words = [project / "dev", "check", "--quick"]
    ran = subprocess.run(words, env=environment, capture_output=True, text=True, check=False, timeout=60)
    assert ran.returncode == 1
    assert sorted(ran.stdout.splitlines()) == [*["lint-imports complains"] * 2, "mypy complains"]
    named = [
        line.rpartition(": ")[2] for line in ran.stderr.splitlines() if line.startswith("dev: failed, see above")
    ]
    assert named == ["mypy", "lint-imports", "lint-imports of the lab"]
    assert {"ruff format --check --quiet .", "ruff check --quiet ."} <= {*(project / "told").read_text().splitlines()}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("settings", "said", "advice"),
    [
        ({"PIP_NO_INDEX": "1"}, "ERROR: No matching distribution found for hatchling==", "reached no package index"),
        ({"PIP_INDEX_URL": "http://127.0.0.1:9"}, "WARNING: Retrying", "reached no package index"),
        (
            {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": "."},
            "(from versions: 0.1)",
            "constraints.txt does not fit Python 3.",
        ),
    ],
    ids=["no index", "unreachable", "version"],
)
def test_what_pip_said_last_is_shown(project: Path, settings: dict[str, str], said: str, advice: str) -> None:
    """With the real pip. Once also the second time: .venv does not count as made."""
    (project / "hatchling-0.1-py3-none-any.whl").touch()
    environment = {"PIP_CONFIG_FILE": os.devnull, "PIP_RETRIES": "1", **settings}
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    for _ in range(2 if "PIP_INDEX_URL" in settings else 1):
        ran = subprocess.run(
            [project / "dev", "demo"],
            env={"PATH": path, **environment},
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        assert ran.returncode == 1
        shown = ran.stderr.partition("Its last warnings and errors")[2]
        assert said in shown
        assert "No package outside .venv was changed." in shown
        assert advice in shown


def test_a_clone_of_another_user_is_refused(project: Path) -> None:
    """As after `sudo ./dev demo`. Root may write everything."""
    (project / ".venv").mkdir(mode=0o500)
    if os.access(project / ".venv", os.W_OK):
        pytest.skip("root may write everything")
    ran = subprocess.run([project / "dev", "demo"], capture_output=True, text=True, check=False, timeout=60)
    assert ran.returncode == 1
    assert "sudo rm -rf .venv" in ran.stderr
