"""The Debian package as a file: what is in it, what is not, and what stops a build.

Installed and run for real it is in test_installed.py.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

import subord
from subord.config.load import load
from subord.config.source import ConfigError

REPOSITORY = Path(__file__).parents[2]
DEBIAN = REPOSITORY / "deploy" / "debian"
BUILD = DEBIAN / "build.py"
IMPORTED = f"import sys; sys.path.insert(0, {str(DEBIAN)!r}); import build"
DEBIANS_PYTHON = "/usr/bin/python3"


@pytest.fixture(scope="module")
def opened(package: Path) -> Iterator[Path]:
    """The package unpacked, but not where it belongs."""
    with TemporaryDirectory(prefix="subord-opened-") as folder:
        subprocess.run(["dpkg-deb", "--raw-extract", package, folder], check=True, timeout=60)
        yield Path(folder)


def field(package: Path, name: str) -> str:
    told = subprocess.run(
        ["dpkg-deb", "--field", package, name], capture_output=True, text=True, check=True, timeout=60
    )
    return told.stdout.strip()


def test_the_fields(package: Path, opened: Path) -> None:
    assert field(package, "Version").startswith(f"{subord.__version__}-1~")
    depends = field(package, "Depends")
    assert re.search(r"python3 \(>= (3\.\d+)\), python3 \(<< 3\.\d+~\)", depends)
    assert "systemd-sysusers" in depends
    used_kib = sum(path.lstat().st_size for path in opened.rglob("*")) / 1024
    assert int(field(package, "Installed-Size")) == pytest.approx(used_kib, rel=0.3)


def test_everything_is_in_it_at_the_version_that_the_suite_ran(opened: Path) -> None:
    pinned = dict(re.findall(r"^([\w.-]+)==(\S+)$", (REPOSITORY / "constraints.txt").read_text(), re.MULTILINE))
    pinned = {name.lower().replace("-", "_"): version for name, version in pinned.items()}
    folders = [path.name for path in opened.glob("usr/lib/subord/lib/python3*/site-packages/*.dist-info")]
    found = dict(name.removesuffix(".dist-info").lower().rsplit("-", 1) for name in folders)
    assert found.pop("subord") == subord.__version__
    assert {"trio", "msgspec", "cryptography"} <= set(found)
    assert found == {name: pinned[name] for name in found}


def test_every_file_of_the_program_is_in_it(opened: Path) -> None:
    """Also those that are no Python."""
    (there,) = opened.glob("usr/lib/subord/lib/python3*/site-packages/subord")
    here = REPOSITORY / "subord"

    def files(top: Path) -> dict[str, bytes]:
        paths = [path for path in top.rglob("*") if path.is_file() and path.parent.name != "__pycache__"]
        return {str(path.relative_to(top)): path.read_bytes() for path in paths}

    assert files(there) == files(here)
    compiled = {
        path.relative_to(there).parent.parent / f"{path.name.split('.')[0]}.py" for path in there.rglob("*.pyc")
    }
    assert compiled == {path.relative_to(there) for path in there.rglob("*.py")}


def test_it_runs_from_wherever_it_is_unpacked(opened: Path) -> None:
    """From its own modules: -I, and no environment."""
    python = opened / "usr/lib/subord/bin/python3"
    compiled = "import cryptography.hazmat.bindings._rust, msgspec._core, netifaces"
    code = f"{compiled}, subord.cli, sys; print(subord.__file__); sys.exit(subord.cli.main())"
    ran = subprocess.run(
        [python, "-I", "-c", code, "--version"],
        env={},
        cwd="/",
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    place, version = ran.stdout.splitlines()
    assert place.startswith(str(opened))
    assert version == f"subord {subord.__version__}"


def test_an_upgrade_can_be_tried_on_the_file_before_it_is_installed(opened: Path, tmp_path: Path) -> None:
    """As docs/operating.md says it: unpacked, the program checks the file of the node."""
    page = (REPOSITORY / "docs/operating.md").read_text()
    (words,) = re.findall(r"^/tmp/newer/(usr/lib/subord/bin/python3 .*) /etc/subord/subord.toml$", page, re.MULTILINE)
    program, *rest = words.split()
    good = '[cluster]\nnetwork = "10.0.0.0/24"\nkey_file = "/etc/subord/cluster.key"\n'
    for text, code in ((good, 0), ("[cluster]\nlater = 1\n", 78)):
        (tmp_path / "file").write_text(text)
        ran = subprocess.run([opened / program, *rest, tmp_path / "file"], env={}, cwd="/", check=False, timeout=60)
        assert ran.returncode == code


def test_what_alerts_name_is_in_it(opened: Path) -> None:
    """A runbook is "docs/prometheus.md#...", seen from the directory of the package's documents."""
    papers = opened / "usr/share/doc/subord"
    assert "runbook: docs/prometheus.md#" in (papers / "examples/prometheus/subord.rules.yml").read_text()
    assert '<a id="SubordNodeDown">' in (papers / "docs/prometheus.md").read_text()
    assert (papers / "docs/operating.md").exists()
    assert (papers / "examples/prometheus/subord.rules.test.yml").exists()


def test_it_names_no_place_of_the_machine_where_it_was_built(opened: Path) -> None:
    traces = (str(REPOSITORY).encode(), b"/subord-deb-")
    files = [path for path in opened.rglob("*") if path.is_file() and not path.is_symlink()]
    assert len(files) > 1000
    assert [path for path in files if any(trace in path.read_bytes() for trace in traces)] == []
    assert (opened / "usr/lib/subord/bin/subord").read_text().startswith("#!/usr/lib/subord/bin/python3 -I\n")
    assert os.readlink(opened / "usr/lib/subord/bin/python3") == DEBIANS_PYTHON
    assert os.readlink(opened / "usr/bin/subord") == "../lib/subord/bin/subord"
    assert sorted(path.name for path in (opened / "usr/lib/subord/bin").iterdir()) == ["python", "python3", "subord"]


def test_what_says_where_the_program_is_says_it_right(opened: Path) -> None:
    unit = (opened / "lib/systemd/system/subord.service").read_text()
    assert unit == (REPOSITORY / "deploy/subord.service").read_text().replace("/opt/subord/bin/", "/usr/bin/")
    for path in (opened / "usr/share/doc/subord/examples").glob("*.sh"):
        assert "/usr/bin/subord job-done" in path.read_text()
        assert os.access(path, os.X_OK)


def test_the_check_sums_are_of_all_files(opened: Path) -> None:
    listed = dict(line.split("  ", 1)[::-1] for line in (opened / "DEBIAN/md5sums").read_text().splitlines())
    files = [path for path in opened.rglob("*") if path.is_file() and not path.is_symlink()]
    there = {str(path.relative_to(opened)): path for path in files if path.parent.name != "DEBIAN"}
    assert {name: hashlib.md5(path.read_bytes()).hexdigest() for name, path in there.items()} == listed


def test_manual_pages_and_completions_are_in_it(opened: Path) -> None:
    pages = [path.name for path in opened.glob("usr/share/man/man?/*.gz")]
    assert {"subord.1.gz", "subord-tree.1.gz", "subord.toml.5.gz"} <= set(pages)
    for place in ("bash-completion/completions/subord", "zsh/vendor-completions/_subord"):
        assert "subord" in (opened / "usr/share" / place).read_text()
    assert (opened / "usr/share/fish/vendor_completions.d/subord.fish").read_text()


def test_no_upgrade_asks_about_the_configuration(opened: Path) -> None:
    """Each node has its own text in /etc/subord: if dpkg knew of it, it would ask on all of them."""
    assert (opened / "DEBIAN/conffiles").read_text() == "/etc/logrotate.d/subord\n"
    assert [str(path.relative_to(opened / "etc")) for path in (opened / "etc").rglob("*") if path.is_file()] == [
        "logrotate.d/subord"
    ]


def test_the_first_configuration_starts_nothing_until_the_network_is_set(opened: Path, tmp_path: Path) -> None:
    """For want of the network it ends with 78, whoever starts it; systemd then does not try again."""
    first = opened / "usr/lib/subord/subord.toml"
    with pytest.raises(ConfigError, match='key "network" is missing') as caught:
        load(str(first))
    assert not caught.value.passing
    filled = tmp_path / "subord.toml"
    filled.write_text(first.read_text().replace("#network", "network").replace("#fanout", "fanout"))
    loaded = load(str(filled))
    assert (loaded.cluster.fanout, loaded.key_file) == (8, "/etc/subord/cluster.key")


@pytest.mark.parametrize("name", ["postinst", "prerm", "postrm"])
def test_the_scripts_are_shell(name: str, opened: Path) -> None:
    script = opened / "DEBIAN" / name
    assert os.access(script, os.X_OK)
    assert "\nset -e\n" in script.read_text()
    subprocess.run(["sh", "-n", script], check=True, timeout=30)


@pytest.mark.parametrize("name", ["postinst", "prerm", "postrm"])
def test_the_scripts_have_no_known_mistake(name: str, opened: Path) -> None:
    if shutil.which("shellcheck") is None:
        pytest.skip("no `shellcheck` here: apt-get install shellcheck")
    subprocess.run(["shellcheck", opened / "DEBIAN" / name], check=True, timeout=30)


@pytest.mark.long
def test_the_same_sources_give_the_same_package(package: Path, tmp_path: Path) -> None:
    subprocess.run([REPOSITORY / "dev", "deb", tmp_path], check=True, capture_output=True, timeout=500)
    assert (tmp_path / package.name).read_bytes() == package.read_bytes()


# -- what stops a build ---------------------------------------------------------------------------------------------


@pytest.fixture
def debians_python() -> str:
    if not Path(DEBIANS_PYTHON).exists():
        pytest.skip(f"no {DEBIANS_PYTHON} here: a Debian package is built on Debian")
    return DEBIANS_PYTHON


def refused(*words: str | Path, path: str = "/usr/bin:/bin") -> tuple[int, str]:
    """Exit code and error text of a build that cannot be."""
    ran = subprocess.run(words, env={"PATH": path}, capture_output=True, text=True, check=False, timeout=60)
    return ran.returncode, ran.stderr


def test_another_python_is_refused(debians_python: str) -> None:
    """Debian's own, which is another one than the program that is named."""
    code, said = refused(
        debians_python, "-c", f"{IMPORTED}; build.environment.PYTHON = '/bin/sh'; sys.exit(build.main([]))"
    )
    assert code == 1
    assert said.startswith("dev deb: this must run under /bin/sh, not /usr/bin/python3")
    assert said.endswith("Nothing was built.\n")


def test_what_is_missing_is_named(debians_python: str) -> None:
    code, said = refused(debians_python, BUILD, path="/nowhere")
    assert (code, "there is no `dpkg-deb`" in said) == (1, True)
    without_venv = f"{IMPORTED}; sys.modules['ensurepip'] = None; sys.exit(build.main([]))"
    code, said = refused(debians_python, "-c", without_venv)
    assert (code, "apt-get install python3-venv" in said) == (1, True)


def test_without_a_package_index(debians_python: str, tmp_path: Path) -> None:
    environment = {"PATH": "/usr/bin:/bin", "PIP_NO_INDEX": "1", "PIP_CONFIG_FILE": "/dev/null"}
    ran = subprocess.run(
        [debians_python, BUILD, tmp_path], env=environment, capture_output=True, text=True, check=False, timeout=300
    )
    assert ran.returncode == 1
    assert ran.stderr.endswith("\nBuilding needs a Python package index: is one reachable?\nNothing was built.\n")
    assert list(tmp_path.iterdir()) == []


def test_a_clone_with_a_space_in_its_path(debians_python: str, tmp_path: Path) -> None:
    """pip splits what it reads from variables at spaces."""
    clone = tmp_path / "Büro 2"
    clone.mkdir()
    shutil.copy(REPOSITORY / "constraints.txt", clone)
    places = f"Path({str(tmp_path)!r}), 'install', '--no-index', 'pip', repository=Path({str(clone)!r})"
    install = f"{IMPORTED}; from pathlib import Path; build.environment._pip({places})"
    code, said = refused(debians_python, "-c", install)
    assert (code, said) == (0, "")


@pytest.mark.parametrize("name", ["subord_0.0.1-1~debian12_amd64.deb", "subord-0.0.1-py3-none-any.whl"])
def test_another_version_in_the_directory_is_refused_and_kept(name: str, debians_python: str, tmp_path: Path) -> None:
    """`apt install ./subord_*.deb` would mean two packages."""
    (tmp_path / name).write_text("")
    code, said = refused(debians_python, BUILD, tmp_path)
    what = f"dev deb: {tmp_path} holds another version, remove it or build elsewhere: {name}\nNothing was built.\n"
    assert (code, said) == (1, what)
    assert [path.name for path in tmp_path.iterdir()] == [name]


@pytest.mark.parametrize("words", [["-x"], ["a", "b"], ["--help"]])
def test_other_words_are_refused(words: list[str], debians_python: str) -> None:
    code, said = refused(debians_python, BUILD, *words)
    assert (code, said) == (2, "dev deb: takes one directory at most, where the package goes; default: dist\n")


def test_a_directory_that_cannot_be_made(debians_python: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    code, said = refused(debians_python, BUILD, tmp_path / "file" / "dist")
    assert (code, said) == (1, f"dev deb: {tmp_path}/file/dist: Not a directory\n")


def test_versions_are_ordered_as_dpkg_orders_them(debians_python: str) -> None:
    versions = ["0.1.0", "0.2.0.dev1", "0.2.0a1", "0.2.0b2", "0.2.0rc1", "0.2.0", "0.2.1"]
    code = f"{IMPORTED}; print(*map(build.debian_version, {versions!r}))"
    printed = subprocess.run(
        [debians_python, "-c", code], capture_output=True, text=True, check=True, timeout=60
    ).stdout.split()
    # 0.2.0~a1 < 0.2.0~dev1 for dpkg; nobody makes both.
    ordered = [each for each in printed if "dev" not in each]
    for older, newer in pairwise(ordered):
        subprocess.run(["dpkg", "--compare-versions", older, "lt", newer], check=True, timeout=30)
    subprocess.run(["dpkg", "--compare-versions", printed[1], "lt", printed[5]], check=True, timeout=30)
