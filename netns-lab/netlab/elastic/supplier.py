"""The supplier of an elastic lab: it starts and stops nodes, as a cloud does for money, and keeps the bill.

It answers on a Unix socket, one JSON line a request: {"do": NAME, ...} -> {"ok": ...} or {"error": SENTENCE}. The
positions of the lab are its stock; when each has had a node, they come again, and the next node is another host.
Nodes of the cluster itself, such as the one that has the queue, are booted, and stand on no bill. A node that has
failed exists, and is paid for, until it is stopped. Invariant: a name has at most one node at a time.

It forks hosts (host.py), and so has the agent imported, once. Daemons are started by the lab.
"""

from __future__ import annotations

import gc
import json
import selectors
import signal
import socket
import time
import traceback
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from netlab.common import linux
from netlab.common.json_lines import Lines, Message
from netlab.common.waiting import wait_until
from netlab.elastic import host
from netlab.elastic.files import BILL, CONFIG, LOG, SHARED, SOCKET
from netlab.errors import LabError
from netlab.processes.client import Client
from netlab.processes.rundir import find
from subord.services.acting import has_effects

READY: Final = "ready"
END_S_MAX: Final = 5.0
"""Of a daemon after SIGTERM."""


@dataclass
class Node:
    """`pid`: the first process of its host, 0: it has failed. `is_paid`: it stands on the bill."""

    position: int
    address: str
    pid: int
    is_paid: bool
    kind: str = ""


class Supplier:
    def __init__(self, lab: str, stock: Sequence[int], agent: host.Main) -> None:
        """`stock`: positions for the nodes that are started. `agent`: runs the agent of a node."""
        self._directory = find(lab)
        self._client = Client(self._directory)
        self._stock = deque(stock)
        self._fresh = len(stock)
        self._agent = agent
        self._nodes: dict[str, Node] = {}
        self._bill = (self._directory.path / BILL).open("a", encoding="utf-8")
        self._refusals = 0
        self._delay_s = 0.0

    def answer(self, request: Message) -> Message:
        what = request.pop("do", None)
        do = getattr(self, f"_do_{what}", None)
        if do is None:
            return {"error": f"The supplier does not know how to {what}."}
        try:
            return {"ok": do(**request)}
        except LabError as reason:
            return {"error": str(reason)}
        except Exception as reason:
            traceback.print_exc()
            return {"error": f"The supplier could not {what}: {type(reason).__name__}: {reason}"}

    # -- what the commands of the configuration ask ---------------------------------------------------------------

    def _do_start(self, name: str, kind: str = "") -> str:
        """The address. A name that is started already has its node."""
        if name in self._nodes:
            return self._nodes[name].address
        if self._refusals:
            self._refusals -= 1
            raise LabError("no node can be had just now")
        if not self._stock:
            raise LabError("there is no node left")
        time.sleep(self._delay_s)
        node = self._booted(name, self._stock.popleft(), {}, is_paid=True, kind=kind)
        return node.address

    def _do_stop(self, name: str) -> None:
        """Without such a node, nothing."""
        if (node := self._nodes.get(name)) is not None:
            self._end(node, signal.SIGTERM)
            del self._nodes[name]
            self._stock.append(node.position)
            self._write("stopped", name, node)

    def _do_list(self) -> dict[str, str]:
        return {name: node.address for name, node in self._nodes.items() if node.is_paid}

    # -- what a test asks -----------------------------------------------------------------------------------------

    def _do_boot(self, name: str, position: int, etc: dict[str, str]) -> str:
        """A node of the cluster itself, which is on no bill. `etc`: see host.py."""
        return self._booted(name, position, etc, is_paid=False).address

    def _do_fail(self, name: str) -> None:
        """All processes of the node end. It exists, and may come back."""
        self._end(self._known(name), signal.SIGKILL)

    def _do_revive(self, name: str) -> None:
        """A node that has failed comes back, with its disk."""
        node = self._known(name)
        self._run(name, node)

    def _do_pid(self, name: str) -> int:
        return self._known(name).pid

    def _do_refuse(self, times: int = 0, delay_s: float = 0.0) -> None:
        """So many of the next starts fail; the others take so long."""
        self._refusals, self._delay_s = times, delay_s

    # -- nodes ----------------------------------------------------------------------------------------------------

    def _booted(self, name: str, position: int, etc: dict[str, str], *, is_paid: bool, kind: str = "") -> Node:
        about = self._about(position)
        self._fresh -= is_paid
        if is_paid and self._fresh < 0:  # another host had this place
            self._client.ask("replace", address=about["address"])
        host.install(name, self._directory.node(position), etc)
        node = self._nodes[name] = Node(position, about["address"], 0, is_paid, kind)
        if is_paid:
            self._write("started", name, node)
        self._run(name, node)
        return node

    def _run(self, name: str, node: Node) -> None:
        if node.pid:
            raise LabError(f"{name} runs already.")
        namespace = self._about(node.position)["namespace"]
        files = self._directory.node(node.position)
        shared = self._directory.path / SHARED
        place = host.Place(name, node.position, files, namespace, shared, files / CONFIG)
        node.pid = host.start(place, self._agent)
        self._client.ask("start", addresses=[node.address])

    def _end(self, node: Node, number: int) -> None:
        with suppress(LabError):  # its daemon has ended
            self._client.ask("signal", address=node.address, number=number)
        if node.pid:
            host.end(node.pid)
            node.pid = 0
        if not wait_until(lambda: self._about(node.position)["pid"] is None, END_S_MAX, 0.02):
            self._client.ask("signal", address=node.address, number=int(signal.SIGKILL))

    def _known(self, name: str) -> Node:
        if name not in self._nodes:
            raise LabError(f"There is no node {name}.")
        return self._nodes[name]

    def _about(self, position: int) -> Message:
        (found,) = (each for each in self._client.ask("info")["nodes"] if each["position"] == position)
        node: Message = found
        return node

    def _write(self, what: str, name: str, node: Node) -> None:
        line = {"at": time.time(), "what": what, "name": name, "address": node.address, "kind": node.kind}
        self._bill.write(f"{json.dumps(line)}\n")
        self._bill.flush()


# -- the process -----------------------------------------------------------------------------------------------------


def supply(text: str) -> int:
    """Serve until standard input ends. `text`: {"lab": NAME, "stock": [POSITION, ...], "agent": MODULE}, and
    "supplier": MODULE of another class Supplier."""
    order: dict[str, Any] = json.loads(text)
    directory = find(order["lab"])
    linux.write_to(directory.path / LOG, 2)
    linux.set_name("lab-supplier")
    agent: host.Main = import_module(order["agent"]).main
    _load()
    made: type[Supplier] = import_module(order.get("supplier", __name__)).Supplier
    supplier = made(order["lab"], order["stock"], agent)
    with socket.socket(socket.AF_UNIX) as listener, selectors.DefaultSelector() as selector:
        listener.bind(str(directory.path / SOCKET))
        listener.listen(64)
        selector.register(listener, selectors.EVENT_READ)
        selector.register(0, selectors.EVENT_READ)
        print(READY, flush=True)
        while True:
            for key, _ in selector.select():
                if key.fileobj == 0:
                    return 0  # all hosts end with this process
                _attend(listener, supplier)


def _attend(listener: socket.socket, supplier: Supplier) -> None:
    """One request."""
    stream, _ = listener.accept()
    stream.settimeout(10.0)
    client = Lines(stream)
    with stream, suppress(OSError, ValueError):
        for request in client:
            client.send(supplier.answer(request))
            return


def _load() -> None:
    """What agents import with the first order of each service."""
    from subord import services

    for name in filter(has_effects, services.NAMES):
        import_module(f"subord.services.{name}.agent")
    gc.collect()
    gc.freeze()


def ask(directory: Path, do: str, **fields: Any) -> Any:
    """The answer. Raises LabError."""
    with socket.socket(socket.AF_UNIX) as stream:
        stream.settimeout(60.0)
        try:
            stream.connect(str(directory / SOCKET))
        except OSError as error:
            raise LabError(f"The supplier of the lab does not answer: {error.strerror}.") from None
        answer = Lines(stream).ask({"do": do, **fields})
    if answer is None:
        raise LabError("The supplier of the lab ended before it answered; supplier.log may say why.")
    if "error" in answer:
        raise LabError(answer["error"])
    return answer["ok"]
