"""`subord job-done`: its effect, its end without a daemon, and the epilogs that call it."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from loops import over

from subord.api.http import server
from subord.cli import main
from subord.cli.changes.job_done import TIMEOUT_S, WEIGHT_MAX
from subord.client import exit_codes
from subord.config.schema import NodeConfig
from subord.runtime.jobs import meter
from tests.api.fake_node_api import World
from tests.api.served_node import fake_daemon, hanging

DEPLOY = Path(__file__).parents[2] / "deploy"


def test_a_job_is_counted_silently(capsys: pytest.CaptureFixture[str]) -> None:
    node = World().node(4)
    with fake_daemon(node) as path:
        assert main(["job-done", "--socket", path]) == exit_codes.OK
        assert main(["job-done", "--socket", path, "--weight", "2.5"]) == exit_codes.OK
        assert main(["job-done", "--socket", path, "--weight", "1e-05"]) == exit_codes.OK
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", "")
    assert node.counters.jobs_done == pytest.approx(3.50001)


def test_a_node_with_another_source_counts_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    world = World()
    world.given = NodeConfig(performance_file="/x")
    node = world.node(4)
    with fake_daemon(node) as path:
        assert main(["job-done", "--socket", path]) == exit_codes.NOT_REACHED
    expected = "subord: the performance of this node comes from node.performance_file: nothing was counted\n"
    assert capsys.readouterr().err == expected
    assert node.counters.jobs_done == 0


@over("weight", ["0", "-1", "x", "nan", "inf", "1000001", ""])
def test_an_invalid_weight(weight: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["job-done", f"--weight={weight}"])
    assert caught.value.code == exit_codes.USAGE
    assert f"must be a number, more than 0 and at most 1e+06, not {weight!r}" in capsys.readouterr().err


def test_the_command_and_the_daemon_have_the_same_bound() -> None:
    assert WEIGHT_MAX == meter.WEIGHT_MAX


def test_a_hanging_daemon_ends_it_soon() -> None:
    assert TIMEOUT_S < 1
    with fake_daemon(World().node(4), {"/v1/job-done": hanging}) as path:
        began = time.monotonic()
        assert main(["job-done", "--socket", path, "--timeout", "0.1"]) == exit_codes.TRY_AGAIN
        assert time.monotonic() - began < 5  # a machine under load


def test_without_a_daemon() -> None:
    with TemporaryDirectory(prefix="s") as folder:
        assert main(["job-done", "--socket", f"{folder}/c"]) == exit_codes.DAEMON_UNREACHABLE


def test_another_user_may_not_report(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(server, "is_owner", lambda _: False)
    node = World().node(4)
    with fake_daemon(node) as path:
        assert main(["job-done", "--socket", path]) == exit_codes.PERMISSION
    assert "only root and the daemon's own user may make changes" in capsys.readouterr().err
    assert node.counters.jobs_done == 0


# -- epilogs --------------------------------------------------------------------------------------------------------

EPILOGS = sorted(DEPLOY.glob("*-epilog.sh"))


@pytest.mark.parametrize("exit_code", [0, 1, 75, 127])
@pytest.mark.parametrize("epilog", EPILOGS, ids=lambda path: path.name)
def test_an_epilog_reports_a_job_and_never_fails(epilog: Path, exit_code: int, tmp_path: Path) -> None:
    """With test programs instead of those that it names with full paths."""
    programs = {
        "subord": f'{{ echo "$0 $*"; /usr/bin/env; }} >"{tmp_path}/called"\necho problem >&2\nexit {exit_code}',
        "logger": f'echo "$*" >"{tmp_path}/logged"\n/bin/cat >>"{tmp_path}/logged"',
    }
    for name, lines in programs.items():
        program = tmp_path / name
        program.write_text(f"#!/bin/sh\n{lines}\n")
        program.chmod(0o755)
    if exit_code == 127:
        (tmp_path / "subord").unlink()
    text = epilog.read_text()
    for full in ("/usr/local/bin/subord", "/usr/bin/logger"):
        assert full in text
        text = text.replace(full, str(tmp_path / Path(full).name))
    script = tmp_path / "epilog"
    script.write_text(text)
    script.chmod(0o755)
    environment = {"PATH": "/nowhere", "PYTHONPATH": "/of/the/job"}
    done = subprocess.run([script], env=environment, capture_output=True, check=False, timeout=30)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    if exit_code != 127:
        called = (tmp_path / "called").read_text()
        assert called.startswith(f"{tmp_path / 'subord'} job-done\n")
        assert ("PYTHONPATH" in called) is (epilog.name == "slurm-epilog.sh")
        assert (tmp_path / "logged").read_text() == "-t subord\nproblem\n"


@pytest.mark.parametrize("epilog", EPILOGS, ids=lambda path: path.name)
def test_an_epilog_is_short(epilog: Path) -> None:
    assert epilog.stat().st_mode & stat.S_IXUSR
    text = epilog.read_text()
    assert text.startswith("#!/bin/sh\n")
    commands = [line for line in text.splitlines() if line and not line.startswith("#")]
    assert len(commands) == 2
    shellcheck = shutil.which("shellcheck")
    if shellcheck is not None:
        subprocess.run([shellcheck, epilog], env=os.environ, check=True, timeout=30)


def test_there_are_two_epilogs() -> None:
    assert [path.name for path in EPILOGS] == ["gridengine-epilog.sh", "slurm-epilog.sh"]
