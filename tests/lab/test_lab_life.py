"""A lab comes and goes, and leaves nothing behind, whichever process is killed."""

import os
import signal
import subprocess
import sys

import pytest

from .lab_helpers import FAKE, SCRIPT, netlab, run_lab, surroundings, traces, wait_until

pytestmark = pytest.mark.lab(few=True)


def a_lab(nodes=5, **options):
    return netlab("lab").Lab(nodes, daemon=FAKE, **options)


@pytest.mark.parametrize("rootless", [False, True])
def test_comes_and_goes(rootless):
    before = surroundings()
    with a_lab(rootless=rootless) as lab:
        lab.start_all()
        lab.wait_stable(timeout_s=20, quiet_s=0.1)
        assert lab.places() == {1: ("root", None), 2: ("home", 1), 3: ("home", 1), 4: ("home", 2), 5: ("home", 2)}
        assert len(traces(lab.options.name)) >= 3 + 5
        assert surroundings() == before
    assert traces(lab.options.name) == []
    assert surroundings() == before


@pytest.mark.parametrize("victim", ["controller", "keeper", "zygote"])
def test_nothing_is_left_when_one_is_killed(victim):
    before = surroundings()
    with a_lab() as lab:
        lab.start_all()
        lab.wait(lambda cluster: len(cluster.live()) == 5, timeout_s=20)
        controller = lab.handle.controller
        with open(f"/proc/{controller}/task/{controller}/children") as file:
            zygote = int(file.read().split()[0])
        os.kill({"controller": controller, "keeper": lab.handle.keeper, "zygote": zygote}[victim], signal.SIGKILL)
        wait_until(lambda: not lab.directory.path.exists(), "directory removed")
        wait_until(lambda: traces(lab.options.name) in ([], [f"process {lab.handle.keeper}: "]), "processes ended")
    assert traces(lab.options.name) == []
    assert surroundings() == before


def test_keeper_and_controller_are_killed_at_once():
    """No process is left to clean up: the kernel ends the processes, and the next lab removes the directory."""
    with a_lab() as lab:
        lab.start_all()
        lab.wait(lambda cluster: len(cluster.live()) == 5, timeout_s=20)
        os.kill(lab.handle.keeper, signal.SIGSTOP)  # so that it cannot notice
        os.kill(lab.handle.controller, signal.SIGKILL)
        os.kill(lab.handle.keeper, signal.SIGKILL)
    # A lab of another test may begin meanwhile, and remove it.
    wait_until(lambda: traces(lab.options.name) in ([], [str(lab.directory.path)]), "processes ended")
    with a_lab():
        assert traces(lab.options.name) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_ends_a_lab_in_the_foreground(number):
    name = f"test-ctrl-c-{os.getpid()}"
    command = [sys.executable, SCRIPT, "up", "--nodes", "5", "--foreground", "--name", name, "--daemon", FAKE]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        for line in process.stdout:
            if "Ctrl-C ends it" in line:
                break
        assert len(traces(name)) >= 5
        process.send_signal(number)
        process.communicate(timeout=30)
    assert process.returncode == 130
    assert traces(name) == []


def test_ctrl_c_while_it_is_being_raised():
    name = f"test-raising-{os.getpid()}"
    command = [sys.executable, SCRIPT, "up", "--nodes", "100", "--name", name, "--daemon", FAKE]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert "making namespaces" in process.stderr.readline()
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=30)
    assert process.returncode == 130
    assert traces(name) == []


def test_the_holder_of_the_lab_is_killed():
    name = f"test-holder-{os.getpid()}"
    command = [sys.executable, SCRIPT, "up", "--nodes", "3", "--foreground", "--name", name, "--daemon", FAKE]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, stderr=subprocess.DEVNULL) as process:
        for line in process.stdout:
            if "Ctrl-C ends it" in line:
                break
        process.kill()
        process.wait()
        wait_until(lambda: traces(name) == [], "the lab ends by itself")


def test_a_directory_left_by_a_dead_lab_is_swept():
    rundir = netlab("processes.rundir")
    left = rundir.create("test-left")
    os.close(left.lock)  # as when all its processes are killed at once
    (left.path / "events").write_text("old\n")
    with a_lab():
        assert not left.path.exists()


def test_one_name_one_lab():
    with a_lab(name=f"test-one-{os.getpid()}") as lab:
        result = run_lab("up", "--nodes", 3, "--name", lab.options.name, "--daemon", FAKE)
        assert result.returncode == 1
        assert "is running" in result.stderr
        lab.start(1)  # and the first is none the worse for it
        lab.wait(lambda cluster: len(cluster.roots()) == 1, timeout_s=20)


def test_a_directory_of_somebody_else_is_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    (tmp_path / "subord-lab").mkdir(mode=0o755)
    with pytest.raises(netlab("errors").LabError, match="not a directory of yours alone"):
        netlab("processes.rundir").create("x")


def test_a_daemon_that_cannot_be_imported_is_reported(tmp_path):
    broken = tmp_path / "broken.py"
    broken.write_text("import no_such_module\n")
    name = f"test-broken-{os.getpid()}"
    result = run_lab("up", "--nodes", 3, "--name", name, "--daemon", broken)
    assert result.returncode == 1
    assert "The daemon cannot be imported: ModuleNotFoundError: No module named 'no_such_module'" in result.stderr
    assert traces(name) == []


def test_why_a_lab_failed_is_said_when_it_is_let_go(capfd):
    with netlab("lab").Lab(nodes=2, daemon=FAKE) as lab:
        info = lab.client.ask("info")
        os.kill(info["controller"], signal.SIGKILL)
        with pytest.raises(netlab("errors").LabError, match="ended before it answered"):
            lab.client.ask("info")
    assert "The lab's controller was killed" in capfd.readouterr().err
