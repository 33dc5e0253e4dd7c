"""The directory of a running lab, and the lock that says that it runs.

Keeper and controller hold the lock while the lab lives. A directory with a free lock was left by a lab that was
killed; the next lab removes it.

    BASE/NAME/                locked (flock) by keeper and controller while the lab lives
    BASE/NAME/controller.sock requests, JSON lines
    BASE/NAME/cluster.key     the key of the cluster, made for this lab alone
    BASE/NAME/operator        the SSH key of its one operator, with operator.pub
    BASE/NAME/allowed_signers the operators file of all nodes
    BASE/NAME/events          event log of all nodes, JSON lines
    BASE/NAME/lab.log         complaints of keeper, controller and zygote
    BASE/NAME/policy.toml     what the operator may do, for agents
    BASE/NAME/nodes/POSITION/ config.toml, control.sock, log, state/; of agents agent.sock, agent.log, agent/,
                              and srv/, which they have as /srv; hosts, if the caller makes it;
                              metrics/ of the option `texts`
"""

from __future__ import annotations

import base64
import contextlib
import fcntl
import os
import shutil
import stat
import subprocess
import tempfile
from pathlib import Path

from netlab.errors import LabError

KEY_BYTES = 32
OPERATOR = "operator"
POLICY = f"""[[allow]]\nprincipals = ["{OPERATOR}"]\nservices = ["*"]\nusers = ["root"]\n"""
UNIX_PATH_BYTES_MAX = 107  # unix(7)
SHARED_MEMORY = Path("/dev/shm")  # noqa: S108 - the lab makes a directory in it, mode 0700, owner checked


def base() -> Path:
    """Directory of all labs of this user. Not created here."""
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    if runtime and Path(runtime).is_dir() and Path(runtime).stat().st_uid == os.geteuid():
        return Path(runtime, "subord-lab")
    # Hundreds of logs and sockets: memory is quicker than a disk's journal.
    if os.access(SHARED_MEMORY, os.W_OK) and "TMPDIR" not in os.environ:
        return SHARED_MEMORY / f"subord-lab-{os.geteuid()}"
    return Path(tempfile.gettempdir(), f"subord-lab-{os.geteuid()}")


class RunDirectory:
    """The directory of one lab. `lock` is the descriptor that holds it, None where only the path is needed."""

    def __init__(self, path: Path, lock: int | None = None) -> None:
        self.path = path
        self.lock = lock
        self.socket = path / "controller.sock"
        self.events = path / "events"
        self.log = path / "lab.log"
        self.key = path / "cluster.key"
        self.operator_key = path / "operator"
        self.operators = path / "allowed_signers"
        self.policy = path / "policy.toml"

    def node(self, position: int) -> Path:
        return self.path / "nodes" / str(position)

    def control_socket(self, position: int) -> Path:
        return self.node(position) / "control.sock"

    def agent_socket(self, position: int) -> Path:
        return self.node(position) / "agent.sock"

    def make_key(self) -> None:
        self.key.touch(mode=0o600)
        self.key.write_text(f"primary {base64.b64encode(os.urandom(KEY_BYTES)).decode()}\n")

    def make_operator(self) -> None:
        """The operator that orders are signed as; without ssh-keygen the lab has none."""
        command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", OPERATOR, "-f", str(self.operator_key)]
        with contextlib.suppress(FileNotFoundError):
            subprocess.run(command, check=True, stdin=subprocess.DEVNULL)
            public = self.operator_key.with_suffix(".pub").read_text()
            self.operators.write_text(f"{OPERATOR} {public}")
            self.operators.chmod(0o644)
            self.policy.write_text(POLICY)
            self.policy.chmod(0o644)

    def remove(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)
        if self.lock is not None:
            os.close(self.lock)
            self.lock = None
        with contextlib.suppress(OSError):  # other labs live there, or it is gone
            self.path.parent.rmdir()


def create(name: str, position_max: int = 1 << 20) -> RunDirectory:
    """Take the name; remove what killed labs left behind. Raises LabError when the name is taken."""
    parent = base()
    parent.mkdir(mode=0o700, exist_ok=True)
    _check_owner(parent)
    path = parent / name
    longest = len(os.fsencode(path / "nodes" / str(position_max) / "control.sock"))
    if longest > UNIX_PATH_BYTES_MAX:
        raise LabError(f"{path} is too long for a Unix socket: set XDG_RUNTIME_DIR or TMPDIR to a shorter directory.")
    base_lock = _lock(parent, wait=True)  # so that no other lab removes a directory before it is locked
    if base_lock is None:  # the last lab of this user ended between the two lines above
        return create(name, position_max)
    try:
        _remove_dead(parent)
        path.mkdir(mode=0o700)
        (path / "nodes").mkdir()
        made = RunDirectory(path, _lock(path, wait=False))
        made.make_key()
        made.make_operator()
        return made
    except FileExistsError:
        raise LabError(f"A lab named {name} is running: `netns-lab/lab down --name {name}` ends it.") from None
    except FileNotFoundError:  # as above
        return create(name, position_max)
    finally:
        os.close(base_lock)


def find(name: str) -> RunDirectory:
    """The running lab of that name. Raises LabError."""
    path = base() / name
    if not path.is_dir():
        raise LabError(f"No lab named {name} is running: `netns-lab/lab up --nodes N --name {name}` starts one.")
    _check_owner(path)
    return RunDirectory(path)


def _remove_dead(parent: Path) -> None:
    for path in sorted(parent.iterdir()):
        if path.is_dir() and not path.is_symlink():
            lock = _lock(path, wait=False)
            if lock is not None:
                shutil.rmtree(path, ignore_errors=True)
                os.close(lock)


def _check_owner(path: Path) -> None:
    about = path.lstat()
    if not stat.S_ISDIR(about.st_mode) or about.st_uid != os.geteuid() or about.st_mode & 0o077:
        raise LabError(
            f"{path} is not a directory of yours alone (mode 0700): remove it, or set TMPDIR. Nothing was done."
        )


def _lock(path: Path, *, wait: bool) -> int | None:
    """The lock of a directory, or None when it is held elsewhere (unless `wait`) or gone."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except OSError:
        os.close(descriptor)
        return None
    return descriptor
