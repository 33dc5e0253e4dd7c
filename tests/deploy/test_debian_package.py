"""The Debian package as a file: its contents, and what stops a build.

test_installed.py installs and runs it.
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
def unpacked(package: Path) -> Iterator[Path]:
    """The unpacked package, in a temporary directory."""
    with TemporaryDirectory(prefix="subord-opened-") as folder:
        subprocess.run(["dpkg-deb", "--raw-extract", package, folder], check=True, timeout=60)
        yield Path(folder)


def field(package: Path, name: str) -> str:
    ran = subprocess.run(
        ["dpkg-deb", "--field", package, name], capture_output=True, text=True, check=True, timeout=60
    )
    return ran.stdout.strip()


def test_the_fields(package: Path, unpacked: Path) -> None:
    assert field(package, "Version").startswith(f"{subord.__version__}-1~")
    depends = field(package, "Depends")
    assert re.search(r"python3 \(>= (3\.\d+)\), python3 \(<< 3\.\d+~\)", depends)
    assert "systemd-sysusers" in depends
    used_kib = sum(path.lstat().st_size for path in unpacked.rglob("*")) / 1024
    assert int(field(package, "Installed-Size")) == pytest.approx(used_kib, rel=0.3)


def test_the_dependencies_have_the_tested_versions(unpacked: Path) -> None:
    pinned = dict(re.findall(r"^([\w.-]+)==(\S+)$", (REPOSITORY / "constraints.txt").read_text(), re.MULTILINE))
    pinned = {name.lower().replace("-", "_"): version for name, version in pinned.items()}
    folders = [path.name for path in unpacked.glob("usr/lib/subord/lib/python3*/site-packages/*.dist-info")]
    found = dict(name.removesuffix(".dist-info").lower().rsplit("-", 1) for name in folders)
    assert found.pop("subord") == subord.__version__
    assert {"trio", "msgspec", "cryptography"} <= set(found)
    assert found == {name: pinned[name] for name in found}


def test_every_file_of_the_program_is_in_it(unpacked: Path) -> None:
    """Also the files that are not Python."""
    (there,) = unpacked.glob("usr/lib/subord/lib/python3*/site-packages/subord")
    here = REPOSITORY / "subord"

    def files(top: Path) -> dict[str, bytes]:
        paths = [path for path in top.rglob("*") if path.is_file() and path.parent.name != "__pycache__"]
        return {str(path.relative_to(top)): path.read_bytes() for path in paths}

    assert files(there) == files(here)
    compiled = {
        path.relative_to(there).parent.parent / f"{path.name.split('.')[0]}.py" for path in there.rglob("*.pyc")
    }
    assert compiled == {path.relative_to(there) for path in there.rglob("*.py")}


def test_it_runs_from_any_directory(unpacked: Path) -> None:
    """From its own modules: -I, and no environment."""
    python = unpacked / "usr/lib/subord/bin/python3"
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
    assert place.startswith(str(unpacked))
    assert version == f"subord {subord.__version__}"


def test_an_upgrade_can_be_tried_on_the_file_before_it_is_installed(unpacked: Path, tmp_path: Path) -> None:
    """As docs/operating.md describes: the unpacked program checks the file of the node."""
    page = (REPOSITORY / "docs/operating.md").read_text()
    (words,) = re.findall(r"^/tmp/newer/(usr/lib/subord/bin/python3 .*) /etc/subord/subord.toml$", page, re.MULTILINE)
    program, *rest = words.split()
    good = '[cluster]\nnetwork = "10.0.0.0/24"\nkey_file = "/etc/subord/cluster.key"\n'
    for text, code in ((good, 0), ("[cluster]\nlater = 1\n", 78)):
        (tmp_path / "file").write_text(text)
        ran = subprocess.run([unpacked / program, *rest, tmp_path / "file"], env={}, cwd="/", check=False, timeout=60)
        assert ran.returncode == code


def test_the_files_that_alerts_name_are_in_it(unpacked: Path) -> None:
    documents = unpacked / "usr/share/doc/subord"
    rules = (documents / "examples/prometheus/subord.rules.yml").read_text()
    (page,) = set(re.findall(r"file:///(.*){{ end }}#", rules))
    assert "\n### SubordNodeDown\n" in (unpacked / page).read_text()
    assert (documents / "docs/operating.md").exists()
    assert len([*(documents / "examples/prometheus").glob("subord.rules.*test.yml")]) == 2


def test_every_link_of_the_documents_leads_to_a_file_of_the_package(unpacked: Path) -> None:
    documents = unpacked / "usr/share/doc/subord"
    pages = list(documents.rglob("*.md"))
    assert len(pages) > 20
    dead = [
        f"{page.relative_to(documents)}: {target}"
        for page in pages
        for target in re.findall(r"\]\(([^)\s#]+)[^)\s]*\)", page.read_text())
        if not target.startswith(("https://", "http://")) and not (page.parent / target).is_file()
    ]
    assert dead == []


def test_the_unit_names_documents_of_the_package(unpacked: Path) -> None:
    unit = (unpacked / "lib/systemd/system/subord.service").read_text()
    (named,) = re.findall(r"^Documentation=(.*)$", unit, re.MULTILINE)
    manual, file = named.split()
    page, section = re.fullmatch(r"man:(\w+)\((\d)\)", manual).groups()  # type: ignore[union-attr]
    assert (unpacked / f"usr/share/man/man{section}/{page}.{section}.gz").is_file()
    assert (unpacked / file.removeprefix("file:///")).is_file()


@pytest.mark.parametrize("page", ["README.md", "docs/install.md", "deploy/debian/control"])
def test_what_the_package_does_not_bring_is_said(page: str, package: Path) -> None:
    depends = field(package, "Depends")
    assert "python3" in depends
    text = " ".join((REPOSITORY / page).read_text().split())
    assert "all libraries; Python comes from Debian" in text


def test_it_names_no_path_of_the_building_machine(unpacked: Path) -> None:
    traces = (str(REPOSITORY).encode(), b"/subord-deb-")
    files = [path for path in unpacked.rglob("*") if path.is_file() and not path.is_symlink()]
    assert len(files) > 1000
    assert [path for path in files if any(trace in path.read_bytes() for trace in traces)] == []
    assert (unpacked / "usr/lib/subord/bin/subord").read_text().startswith("#!/usr/lib/subord/bin/python3 -I\n")
    assert os.readlink(unpacked / "usr/lib/subord/bin/python3") == DEBIANS_PYTHON
    assert os.readlink(unpacked / "usr/bin/subord") == "../lib/subord/bin/subord"
    assert sorted(path.name for path in (unpacked / "usr/lib/subord/bin").iterdir()) == [
        "python",
        "python3",
        "subord",
        "subord-agent",
    ]
    agent = (unpacked / "usr/lib/subord/bin/subord-agent").read_text()
    assert "\nfrom subord.agent.main import main\n" in agent
    assert os.readlink(unpacked / "usr/bin/subord-agent") == "../lib/subord/bin/subord-agent"


def test_files_name_the_installed_program(unpacked: Path) -> None:
    for name in ("subord.service", "subord-agent.service", "subord-agent.socket"):
        unit = (unpacked / "lib/systemd/system" / name).read_text()
        assert unit == (REPOSITORY / "deploy" / name).read_text().replace("/opt/subord/bin/", "/usr/bin/")
    for path in (unpacked / "usr/share/doc/subord/examples").glob("*.sh"):
        assert "/usr/bin/subord job-done" in path.read_text()
        assert os.access(path, os.X_OK)
    for name in ("slurm", "gridengine"):
        path = unpacked / "usr/share/doc/subord/examples/epilog" / name
        assert "/usr/bin/subord account add" in path.read_text()
        assert os.access(path, os.X_OK)


def test_the_check_sums_are_of_all_files(unpacked: Path) -> None:
    listed = dict(line.split("  ", 1)[::-1] for line in (unpacked / "DEBIAN/md5sums").read_text().splitlines())
    files = [path for path in unpacked.rglob("*") if path.is_file() and not path.is_symlink()]
    there = {str(path.relative_to(unpacked)): path for path in files if path.parent.name != "DEBIAN"}
    assert {name: hashlib.md5(path.read_bytes()).hexdigest() for name, path in there.items()} == listed


def test_manual_pages_and_completions_are_in_it(unpacked: Path) -> None:
    pages = [path.name for path in unpacked.glob("usr/share/man/man?/*.gz")]
    assert {"subord.1.gz", "subord-tree.1.gz", "subord.toml.5.gz"} <= set(pages)
    for place in ("bash-completion/completions/subord", "zsh/vendor-completions/_subord"):
        assert "subord" in (unpacked / "usr/share" / place).read_text()
    assert (unpacked / "usr/share/fish/vendor_completions.d/subord.fish").read_text()


def test_no_upgrade_asks_about_the_configuration(unpacked: Path) -> None:
    """The files of the nodes in /etc/subord differ: as a conffile of dpkg, each node would be asked."""
    assert (unpacked / "DEBIAN/conffiles").read_text() == "/etc/logrotate.d/subord\n"
    assert [str(path.relative_to(unpacked / "etc")) for path in (unpacked / "etc").rglob("*") if path.is_file()] == [
        "logrotate.d/subord"
    ]


def test_the_first_configuration_starts_nothing_until_the_network_is_set(unpacked: Path, tmp_path: Path) -> None:
    """Without the network the daemon ends with 78, and systemd does not restart it."""
    first = unpacked / "usr/lib/subord/subord.toml"
    with pytest.raises(ConfigError, match='key "network" is missing') as caught:
        load(str(first))
    assert not caught.value.passing
    filled = tmp_path / "subord.toml"
    filled.write_text(first.read_text().replace("#network", "network").replace("#fanout", "fanout"))
    loaded = load(str(filled))
    assert (loaded.cluster.fanout, loaded.key_file) == (8, "/etc/subord/cluster.key")


@pytest.mark.parametrize("name", ["postinst", "prerm", "postrm"])
def test_the_scripts_are_shell(name: str, unpacked: Path) -> None:
    script = unpacked / "DEBIAN" / name
    assert os.access(script, os.X_OK)
    assert "\nset -e\n" in script.read_text()
    subprocess.run(["sh", "-n", script], check=True, timeout=30)


@pytest.mark.parametrize("name", ["postinst", "prerm", "postrm"])
def test_the_scripts_pass_shellcheck(name: str, unpacked: Path) -> None:
    if shutil.which("shellcheck") is None:
        pytest.skip("no `shellcheck` here: apt-get install shellcheck")
    subprocess.run(["shellcheck", unpacked / "DEBIAN" / name], check=True, timeout=30)


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


def failed_build(*words: str | Path, path: str = "/usr/bin:/bin") -> tuple[int, str]:
    """Exit code and error text of a build that must fail."""
    ran = subprocess.run(words, env={"PATH": path}, capture_output=True, text=True, check=False, timeout=60)
    return ran.returncode, ran.stderr


def test_another_python_is_refused(debians_python: str) -> None:
    """Here Debian's own, while the required program is another one."""
    code, error = failed_build(
        debians_python, "-c", f"{IMPORTED}; build.environment.PYTHON = '/bin/sh'; sys.exit(build.main([]))"
    )
    assert code == 1
    assert error.startswith("dev deb: this must run under /bin/sh, not /usr/bin/python3")
    assert error.endswith("Nothing was built.\n")


def test_what_is_missing_is_named(debians_python: str) -> None:
    code, error = failed_build(debians_python, BUILD, path="/nowhere")
    assert (code, "there is no `dpkg-deb`" in error) == (1, True)
    without_venv = f"{IMPORTED}; sys.modules['ensurepip'] = None; sys.exit(build.main([]))"
    code, error = failed_build(debians_python, "-c", without_venv)
    assert (code, "apt-get install python3-venv" in error) == (1, True)


def test_without_a_package_index(debians_python: str, tmp_path: Path) -> None:
    environment = {"PATH": "/usr/bin:/bin", "PIP_NO_INDEX": "1", "PIP_CONFIG_FILE": "/dev/null"}
    ran = subprocess.run(
        [debians_python, BUILD, tmp_path], env=environment, capture_output=True, text=True, check=False, timeout=300
    )
    assert ran.returncode == 1
    assert ran.stderr.endswith("\nBuilding needs a Python package index: is one reachable?\nNothing was built.\n")
    assert list(tmp_path.iterdir()) == []


def test_a_clone_with_a_space_in_its_path(debians_python: str, tmp_path: Path) -> None:
    """pip splits the values of its variables at spaces."""
    clone = tmp_path / "Büro 2"
    clone.mkdir()
    shutil.copy(REPOSITORY / "constraints.txt", clone)
    places = f"Path({str(tmp_path)!r}), 'install', '--no-index', 'pip', repository=Path({str(clone)!r})"
    install = f"{IMPORTED}; from pathlib import Path; build.environment._pip({places})"
    code, error = failed_build(debians_python, "-c", install)
    assert (code, error) == (0, "")


@pytest.mark.parametrize("name", ["subord_0.0.1-1~debian12_amd64.deb", "subord-0.0.1-py3-none-any.whl"])
def test_another_version_in_the_directory_is_refused_and_kept(name: str, debians_python: str, tmp_path: Path) -> None:
    """`apt install ./subord_*.deb` would match two packages."""
    (tmp_path / name).write_text("")
    code, error = failed_build(debians_python, BUILD, tmp_path)
    what = f"dev deb: {tmp_path} holds another version, remove it or build elsewhere: {name}\nNothing was built.\n"
    assert (code, error) == (1, what)
    assert [path.name for path in tmp_path.iterdir()] == [name]


@pytest.mark.parametrize("words", [["-x"], ["a", "b"], ["--help"]])
def test_other_words_are_refused(words: list[str], debians_python: str) -> None:
    code, error = failed_build(debians_python, BUILD, *words)
    assert (code, error) == (2, "dev deb: takes one directory at most, where the package goes; default: dist\n")


def test_a_directory_that_cannot_be_made(debians_python: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    code, error = failed_build(debians_python, BUILD, tmp_path / "file" / "dist")
    assert (code, error) == (1, f"dev deb: {tmp_path}/file/dist: Not a directory\n")


def test_versions_are_ordered_as_dpkg_orders_them(debians_python: str) -> None:
    versions = ["0.1.0", "0.2.0.dev1", "0.2.0a1", "0.2.0b2", "0.2.0rc1", "0.2.0", "0.2.1"]
    code = f"{IMPORTED}; print(*map(build.debian_version, {versions!r}))"
    printed = subprocess.run(
        [debians_python, "-c", code], capture_output=True, text=True, check=True, timeout=60
    ).stdout.split()
    # For dpkg 0.2.0~a1 < 0.2.0~dev1; a project has only one of them.
    ordered = [each for each in printed if "dev" not in each]
    for older, newer in pairwise(ordered):
        subprocess.run(["dpkg", "--compare-versions", older, "lt", newer], check=True, timeout=30)
    subprocess.run(["dpkg", "--compare-versions", printed[1], "lt", printed[5]], check=True, timeout=30)
