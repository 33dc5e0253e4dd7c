"""Running a command in one node's network namespace, or in that of the bridges (`wire`), from the shell.

The command sees the node's network and finds its daemon (`SUBORD_SOCKET`). It ends when the lab ends, and what it has
left in the background ends with it.
"""

from __future__ import annotations

import os
import selectors
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from netlab.common import linux
from netlab.common.json_lines import Message
from netlab.errors import LabError
from netlab.processes.client import Client
from netlab.processes.launch import SCRIPT

NOT_FOUND = 127  # as the shell has it
WIRE = "wire"  # in the place of a node: the namespace of the bridges, which all traffic passes


def find_node(info: Message, wanted: str) -> Message:
    """The node of that position or address in the controller's `info`. Raises LabError."""
    for node in info["nodes"]:
        if wanted in (str(node["position"]), node["address"]):
            found: Message = node
            return found
    raise LabError(f"{wanted} is neither position nor address of a node: `netns-lab/lab status` lists them.")


def command_in(name: str, node: str, command: Sequence[str]) -> list[str]:
    """The shell command that runs `command` on a node of the lab `name`, or on the WIRE."""
    return [sys.executable, str(SCRIPT), "exec", "--name", name, node, "--", *command]


def run_in(client: Client, wanted: str, command: Sequence[str]) -> int:
    """Run the command with this terminal; its exit code, or 128 + signal. Ends it when the lab ends."""
    info = client.ask("info")
    environment = {
        **os.environ,
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)]),
    }
    if wanted == WIRE:
        node: Message = {"namespace": f"/proc/{info['controller']}/ns/net"}
        environment.pop("SUBORD_SOCKET", None)  # no daemon runs there
    else:
        node = find_node(info, wanted)
        environment["SUBORD_SOCKET"] = str(client.directory.control_socket(node["position"]))
    linux.adopt_orphans()
    starter, command_pid = os.getpid(), os.fork()
    if command_pid == 0:
        _become(info, node, command, environment, starter)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is meant for the command
    signal.signal(signal.SIGQUIT, signal.SIG_IGN)
    code = _await_either(command_pid, client)
    linux.end_all_below()  # a process in the background would keep the namespace alive
    return code


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
    """User namespace first: it gives the right to enter the others."""
    controller = f"/proc/{info['controller']}/ns"
    here = os.getcwd()
    namespaces = [(node["namespace"], linux.CLONE_NEWNET), (f"{controller}/mnt", linux.CLONE_NEWNS)]
    if info["rootless"] or os.stat(f"{controller}/user").st_ino != os.stat("/proc/self/ns/user").st_ino:
        namespaces.insert(0, (f"{controller}/user", linux.CLONE_NEWUSER))
    descriptors = [(os.open(path, os.O_RDONLY | os.O_CLOEXEC), kind) for path, kind in namespaces]
    for descriptor, kind in descriptors:
        linux.setns(descriptor, kind)
    os.chdir(here)  # entering a mount namespace leads to its root directory


def _await_either(pid: int, client: Client) -> int:
    """The command's end, or the lab's."""
    process = os.pidfd_open(pid)
    with selectors.DefaultSelector() as selector:
        selector.register(process, selectors.EVENT_READ)
        selector.register(client, selectors.EVENT_READ)
        if all(key.fileobj is client for key, _ in selector.select()):
            os.kill(pid, signal.SIGKILL)
            print("The lab ended, and this command with it.", file=sys.stderr)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    return code if code >= 0 else 128 - code
