"""The sockets of the agents of all nodes, in the place of systemd: a connection starts the agent of its node.

Input is which nodes there are, and that a socket is readable; output is a copy of the zygote that runs
`subord-agent`, with the listening socket as systemd passes it (sd_listen_fds(3)). While an agent runs, it alone takes
connections. An agent that ends is started again by the next connection, at most STARTS_MAX times.
"""

from __future__ import annotations

import os
import selectors
import signal
import socket
from collections.abc import Callable
from dataclasses import dataclass
from typing import NoReturn

from netlab.processes.rundir import RunDirectory

STARTS_MAX = 50
BACKLOG = 64
LISTEN_FD = 3


@dataclass
class Agent:
    """One node. `pid` 0: its agent does not run."""

    address: str
    namespace: str
    position: int
    listener: socket.socket
    pid: int = 0
    starts: int = 0


class Agents:
    """`become`: in a copy of the zygote, the agent of a node."""

    def __init__(
        self, directory: RunDirectory, selector: selectors.BaseSelector, become: Callable[[Agent], NoReturn]
    ) -> None:
        self._directory = directory
        self._selector = selector
        self._become = become
        self._of: dict[str, Agent] = {}

    def listen(self, address: str, namespace: str, position: int) -> None:
        """Make the socket of a node, once."""
        if address in self._of:
            return
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(str(self._directory.agent_socket(position)))
        listener.listen(BACKLOG)
        agent = self._of[address] = Agent(address, namespace, position, listener)
        self._selector.register(listener, selectors.EVENT_READ, agent)

    def remove(self, address: str) -> None:
        """The node has no agent from now on."""
        self.kill(address, signal.SIGKILL)
        agent = self._of.pop(address)
        self._selector.unregister(agent.listener)
        agent.listener.close()
        self._directory.agent_socket(agent.position).unlink()

    def start(self, agent: Agent) -> None:
        """A connection waits. The node may have lost its agent in the same turn of the loop."""
        if agent.address not in self._of:
            return
        self._selector.unregister(agent.listener)
        if agent.starts >= STARTS_MAX:
            return
        agent.starts += 1
        agent.pid = os.fork()
        if agent.pid == 0:
            self._become(agent)

    def kill(self, address: str, number: int) -> bool:
        """Send a signal to the agent of a node; whether it ran. After SIGKILL it is gone."""
        agent = self._of.get(address)
        if agent is None or not agent.pid:
            return False
        os.kill(agent.pid, number)
        if number == signal.SIGKILL:
            os.waitpid(agent.pid, 0)
            self.ended(agent.pid)
        return True

    def ended(self, pid: int) -> bool:
        """Whether the process was an agent; then its socket is watched again."""
        for agent in self._of.values():
            if agent.pid == pid:
                agent.pid = 0
                self._selector.register(agent.listener, selectors.EVENT_READ, agent)
                return True
        return False


def pass_socket(listener: socket.socket) -> None:
    """In the copy: give the socket to the agent."""
    os.dup2(listener.fileno(), LISTEN_FD)
    os.environ.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS="1")
