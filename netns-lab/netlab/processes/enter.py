"""Running a command in one node's network namespace, or in that of the bridges (`wire`).

The command sees the node's network, finds its daemon (`SUBORD_SOCKET`), and signs as the lab's operator
(`SUBORD_OPERATOR_KEY`). It ends when the lab ends, and what it has left in the background ends with it.

Commands of the lab itself run beside the caller. Each is `netns-lab/lab WORD ORDER`, the order a JSON object. It
prints BEGUN when it has begun, ends when its standard input ends, and prints one line of JSON when it is done.
"""

from __future__ import annotations

import json
import os
import select
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from netlab.common import linux
from netlab.common.json_lines import Message
from netlab.errors import LabError
from netlab.processes.client import Client
from netlab.processes.launch import SCRIPT

NOT_FOUND = 127  # as the shell has it
BEGUN = "begun"
BEGIN_S_MAX = 60.0
END_S_MAX = 30.0  # beyond the time that was asked for
WIRE = "wire"  # in the place of a node: the namespace of the bridges, which all traffic passes
_OPTIONS = {linux.CLONE_NEWUSER: "user", linux.CLONE_NEWNET: "net", linux.CLONE_NEWNS: "mount"}  # of nsenter(1)


def find_node(info: Message, wanted: str) -> Message:
    """The node of that position or address in the controller's `info`. Raises LabError."""
    for node in info["nodes"]:
        if wanted in (str(node["position"]), node["address"]):
            found: Message = node
            return found
    raise LabError(f"{wanted} is neither position nor address of a node: `netns-lab/lab status` lists them.")


def command_in(name: str, node: str, command: Sequence[str]) -> list[str]:
    """The shell command that runs `command` on a node of the lab `name`, or on the WIRE."""
    return [sys.executable, str(SCRIPT), "exec-in", name, node, *command]


def ran_in(client: Client, wanted: str, command: Sequence[str], timeout_s: float) -> subprocess.CompletedProcess[str]:
    """Run the command, which leaves nothing in the background, with nsenter(1): it starts a hundred times as fast as
    a process of the lab. Raises LabError and subprocess.TimeoutExpired."""
    info = client.ask("info")
    node, environment = _place(client, info, wanted)
    words = [f"--{_OPTIONS[kind]}={path}" for path, kind in _namespaces(info, node)]
    return subprocess.run(
        ["nsenter", "--preserve-credentials", *words, "--", "env", "-C", os.getcwd(), "--", *command],
        env=environment,
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
    )


def run_in(client: Client, wanted: str, command: Sequence[str]) -> int:
    """Run the command with this terminal; its exit code, or 128 + signal. Ends it when the lab ends."""
    info = client.ask("info")
    node, environment = _place(client, info, wanted)
    linux.adopt_orphans()
    starter, command_pid = os.getpid(), os.fork()
    if command_pid == 0:
        _become(info, node, command, environment, starter)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is meant for the command
    signal.signal(signal.SIGQUIT, signal.SIG_IGN)
    code = _await_either(command_pid, client)
    linux.end_all_below()  # a process in the background would keep the namespace alive
    return code


def _place(client: Client, info: Message, wanted: str) -> tuple[Message, dict[str, str]]:
    """The node, and the environment of a command there. Raises LabError."""
    environment = {
        **os.environ,
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)]),
        "SUBORD_OPERATOR_KEY": str(client.directory.operator_key),
    }
    if wanted == WIRE:
        environment.pop("SUBORD_SOCKET", None)  # no daemon runs there
        return {"namespace": f"/proc/{info['controller']}/ns/net"}, environment
    node = find_node(info, wanted)
    environment["SUBORD_SOCKET"] = str(client.directory.control_socket(node["position"]))
    return node, environment


def _become(info: Message, node: Message, command: Sequence[str], environment: dict[str, str], starter: int) -> None:
    try:
        enter(info, node)
        linux.die_with(starter, signal.SIGKILL)
        os.execvpe(command[0], list(command), environment)  # noqa: S606  # the user can give a shell as the command
    except OSError as reason:
        print(f"{command[0]}: {reason.strerror}", file=sys.stderr)
    finally:
        os._exit(NOT_FOUND)


def enter(info: Message, node: Message) -> None:
    here = os.getcwd()
    descriptors = [(os.open(path, os.O_RDONLY | os.O_CLOEXEC), kind) for path, kind in _namespaces(info, node)]
    for descriptor, kind in descriptors:
        linux.setns(descriptor, kind)
    os.chdir(here)  # entering a mount namespace leads to its root directory


def _namespaces(info: Message, node: Message) -> list[tuple[str, int]]:
    """Their files and kinds. User namespace first: it gives the right to enter the others."""
    controller = f"/proc/{info['controller']}/ns"
    namespaces = [(node["namespace"], linux.CLONE_NEWNET), (f"{controller}/mnt", linux.CLONE_NEWNS)]
    if info["rootless"] or os.stat(f"{controller}/user").st_ino != os.stat("/proc/self/ns/user").st_ino:
        namespaces.insert(0, (f"{controller}/user", linux.CLONE_NEWUSER))
    return namespaces


def begin_in(
    info: Message, node: Message, command: Sequence[str], *, folders: Mapping[str, Path] | None = None, **options: Any
) -> subprocess.Popen[bytes]:
    """A process in the namespaces of the node, which ends with this one. `folders`: what it has in the place of
    others, such as /srv; `options`: of Popen. Raises OSError."""
    starter = os.getpid()

    def enter_node() -> None:
        enter(info, node)
        for place, path in (folders or {}).items():
            linux.own_folder(path, place)
        linux.die_with(starter, signal.SIGKILL)
        os.setpriority(os.PRIO_PROCESS, 0, 0)  # a process that measures may have a higher one
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # a shell has what it starts in the background ignore it

    return subprocess.Popen(command, preexec_fn=enter_node, **options)  # noqa: PLW1509 - it has one thread


def _await_either(pid: int, client: Client) -> int:
    process = os.pidfd_open(pid)
    with selectors.DefaultSelector() as selector:
        selector.register(process, selectors.EVENT_READ)
        selector.register(client, selectors.EVENT_READ)
        if all(key.fileobj is client for key, _ in selector.select()):
            os.kill(pid, signal.SIGKILL)
            print("The lab ended, and this command with it.", file=sys.stderr)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    return code if code >= 0 else 128 - code


class NodeCommand:
    """One process, from its start on; it has ended after `finish`, and at the end of a `with` block."""

    def __init__(self, name: str, place: int | str, word: str, order: Mapping[str, Any], for_s: float) -> None:
        """In the lab `name`, at a position or on the wire; the command may take `for_s`."""
        self._what = f"`{word}` at {place}"
        self._until = time.monotonic() + BEGIN_S_MAX + for_s + END_S_MAX
        command = [sys.executable, str(SCRIPT), word, json.dumps(order)]
        self._process = subprocess.Popen(
            command_in(name, str(place), command),
            stdin=subprocess.PIPE,  # its end asks the command to end
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,  # or what follows the first line might be read with it
        )

    def __enter__(self) -> NodeCommand:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.poll() is None:
            self._process.kill()  # what it runs in the namespace dies with it (enter.py)
            self._process.communicate()

    def await_begin(self) -> None:
        """Until it prints BEGUN. Raises LabError."""
        stdout = self._process.stdout
        assert stdout is not None
        if not select.select([stdout], [], [], BEGIN_S_MAX)[0] or stdout.readline() != f"{BEGUN}\n".encode():
            self._process.kill()
            complaint = self._process.communicate()[1].decode(errors="replace").strip()
            raise LabError(f"{self._what} did not begin: {complaint}")

    def finish(self) -> dict[str, Any]:
        """Its line of JSON when it is done. Raises LabError."""
        try:
            printed, complaint = self._process.communicate(timeout=max(0.1, self._until - time.monotonic()))
        except subprocess.TimeoutExpired:
            raise LabError(f"{self._what} does not end.") from None
        if self._process.returncode:
            words = (complaint.strip() or printed.strip()).decode(errors="replace")
            raise LabError(f"{self._what} failed: {words}")
        found: dict[str, Any] = json.loads(printed)
        return found


def say_begun() -> None:
    """Inside: tell the caller that the command has begun."""
    print(BEGUN, flush=True)


def carry_out(act: Callable[..., dict[str, Any]], text: str) -> int:
    """Inside: do what the order (JSON) says, print the result. The exit code: 0, or 1 with a sentence why not."""
    try:
        found = act(**json.loads(text))
    except LabError as reason:
        print(reason, file=sys.stderr)
        return 1
    print(json.dumps(found), flush=True)
    return 0
