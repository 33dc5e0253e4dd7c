"""What the tests of the lab share: the stand-in daemon, and a look at what a lab may have left behind."""

import contextlib
import importlib
import io
import os
import re
import signal
import subprocess
import sys
import sysconfig
from pathlib import Path
from types import SimpleNamespace

import pytest
from conditions import look_until

REPOSITORY = Path(__file__).parents[2]
SCRIPT = REPOSITORY / "netns-lab" / "lab"
FAKE = Path(__file__).with_name("fake_daemon.py")
SUBORD = str(Path(sys.executable).with_name("subord"))
WAIT_S = 60.0
"""Far more than a condition needs, also where five workers share two processors."""


def netlab(module):
    return importlib.import_module(f"netlab.{module}")


def traces(name):
    """Everything on this machine that shows a lab of that name: processes, and its directory."""
    found = [f"process {pid}: {text}" for pid, text in _commands() if name in text]
    found += [str(base / name) for base in sorted(_bases()) if (base / name).exists()]
    return found


def surroundings():
    """What must be the same before and after: mounts and links of our own namespaces, namespaces in use."""
    mounts = Path("/proc/self/mountinfo").read_text().splitlines()
    return {
        "mounts": sorted(line.split(" ", 2)[2] for line in mounts if " - overlay " not in line),  # of tests/deploy
        "links": sorted(os.listdir("/sys/class/net")),
        "namespaces": sorted(os.listdir("/run/netns")) if Path("/run/netns").is_dir() else [],
    }


@contextlib.contextmanager
def settled(seconds, **options):
    """A lab of that kind, once its tree stands and its root knows that its nodes are all."""
    with netlab("lab").Lab(**options) as lab:
        lab.start_all()
        lab.wait_stable(seconds)
        wait_until(lambda: lab.document(lab.positions[-1], "/v1/members")["complete"], "the root knows all members")
        yield lab


def mend(lab):
    """Connect and start again what a test that has failed half-way has left cut, stopped or dead, so that the next
    test of the same lab begins with a whole tree. What the test has removed for good stays removed."""
    errors = netlab("errors")
    with contextlib.suppress(errors.LabError, OSError):  # the lab itself has ended
        for position in lab.positions:
            lab.cut(position, connected=True)
        for node in lab.look().nodes.values():
            with contextlib.suppress(errors.LabError):  # it has ended, or runs
                lab.kill(lab.position(node.address), signal.SIGCONT)
            with contextlib.suppress(errors.LabError):
                lab.start(lab.position(node.address))
        lab.holds(lambda cluster: cluster.settled_at() is not None, WAIT_S)


def command(lab, position, *words):
    """`subord ...` as the operator of the lab asks the daemon of that node."""
    return subprocess.run(
        [SUBORD, *words, "--socket", str(lab.control_socket(position))],
        env=lab.environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def wait_until(condition, what):
    """Wait on a condition, never on time alone."""
    look_until(condition, lambda: what, WAIT_S)


def blocks(page):
    """What a document shows of terminals, block by block."""
    return re.findall(r"^```text\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)


def prints_as_shown(block, shell):
    """Each command of a block prints what follows it there, but for times. `shell`: runs a line."""
    for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
        line, _, output = part.partition("\n")
        assert re.sub(r"in \d+ ms", "in MS", shell(line).stdout) == re.sub(r"in \d+ ms", "in MS", output), line


def run_lab(*arguments, timeout=120, **kwargs):
    return subprocess.run(
        [sys.executable, str(SCRIPT), *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
        **kwargs,
    )


def refused(*arguments, cwd="."):
    """What `netns-lab/lab` says of a command that it refuses before it raises a lab, without a process of its own."""
    handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}
    out, err = io.StringIO(), io.StringIO()
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), contextlib.chdir(cwd):
            code = netlab("cli.commands").main([str(each) for each in arguments])
    except SystemExit as usage:
        code = usage.code
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
    return SimpleNamespace(returncode=code, stdout=out.getvalue(), stderr=err.getvalue())


def need_relay():
    """Skips where sites with a distance between them cannot be."""
    if not os.access("/dev/net/tun", os.R_OK | os.W_OK):
        pytest.skip("the relay between sites needs /dev/net/tun, which this user may not open")


def need_neighbours():
    """Skips where the many addresses of a sparse lab do not fit the kernel's neighbour table."""
    if os.geteuid() != 0:
        pytest.skip("only root may enlarge the kernel's neighbour table")


def need_gridengine():
    """Skips where a cluster cannot grow and shrink with a real Grid Engine."""
    if packages := netlab("elastic.gridengine").missing():
        pytest.skip(f"a program is missing: apt-get install {' '.join(packages)}")
    if os.geteuid():
        pytest.skip("only root may run jobs as other users")


def need_machines():
    """Skips where no servers of libvirt's test driver can be, with a real Grid Engine."""
    need_gridengine()
    if packages := netlab("machines.cluster").missing():
        pytest.skip(f"a program is missing: apt-get install {' '.join(packages)}")


def as_nobody(directory):
    """Command prefix and environment that run our Python as a user without rights; skips where that cannot be."""
    if os.geteuid() != 0:
        return [sys.executable], dict(os.environ)
    environment = {
        "PATH": "/usr/bin:/bin",
        "TMPDIR": str(directory),
        "PYTHONPATH": os.pathsep.join([sysconfig.get_path("purelib"), str(REPOSITORY)]),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    prefix = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"]
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    for python in (os.path.realpath(sys.executable), f"/usr/bin/{version}"):
        test = [*prefix, "sh", "-c", f'exec "{python}" -c "import pyroute2, trio"']
        if subprocess.run(test, env=environment, capture_output=True, check=False).returncode == 0:
            return [*prefix, python], environment
    return pytest.skip("no Python here that uid 65534 may execute")


def _commands():
    for entry in os.listdir("/proc"):
        if entry.isdigit() and int(entry) != os.getpid():
            try:
                yield int(entry), Path("/proc", entry, "cmdline").read_bytes().replace(b"\0", b" ").decode()
            except OSError:
                continue


def _bases():
    return {*Path("/tmp").glob("subord-lab-*"), netlab("processes.rundir").base()}
