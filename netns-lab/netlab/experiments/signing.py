"""Signed orders of the lab's service `touch` (netns-lab/services), which appends a line to a file of each node.

Inputs are what an order says and how its service behaves; outputs are the body of a request, and the document of its
answer. The files show how often each node has acted.
"""

from __future__ import annotations

import base64
import json
import os
import subprocess
import time
from pathlib import Path
from typing import Any

import msgspec

from netlab.lab import Lab
from subord.client.daemon import change
from subord.core.carriage.engine.acting import service_orders
from subord.core.carriage.engine.frames import order_of
from subord.core.carriage.engine.ranges import Ranges
from subord.core.carriage.orders import Cluster
from subord.sim.scenario.selection import listed

SERVICES = Path(__file__).parents[2] / "services"
SERVICE = "touch"
CLUSTER: Cluster = ("", "10.0.0.0/16")
BUDGET_S = 8.0
HOUR_MS = 3_600_000
Body = dict[str, Any]


class Operator:
    """Signs orders with a key, the lab's by default, and gives them at a node."""

    def __init__(self, lab: Lab, key: Path | None = None) -> None:
        self.lab = lab
        self.key = key or lab.directory.operator_key

    def order(
        self,
        name: str,
        *,
        nodes: str | None = None,
        user: str = "root",
        service: str = SERVICE,
        namespace: str = "",
        shift_ms: int = 0,
        run_s: float = BUDGET_S,
        tag: bytes = b"",
        **behaviour: bool,
    ) -> Body:
        """The body of a request: append to the file `name`. `shift_ms`: the clock of the operator is so far ahead.
        `namespace` "": that of the service. `tag` b"": a new one. `behaviour`: of the service."""
        payload = json.dumps({"file": name, **behaviour}).encode()
        targets = None if nodes is None else Ranges.of(listed(nodes))
        tag = tag or os.urandom(16)
        order = order_of(tag, service, payload, targets, 1)
        authority = service_orders.valid_for(user, int(time.time() * 1000) + shift_ms, run_s)
        content = service_orders.content_of(CLUSTER, order, authority)
        command = ["ssh-keygen", "-Y", "sign", "-q", "-f", str(self.key), "-n", namespace or f"subord.{service}"]
        signature = subprocess.run(command, input=content, capture_output=True, check=True).stdout
        signed = msgspec.structs.replace(authority, signature=signature)
        return {
            "nodes": nodes,
            "tag": text(tag),
            "payload": text(payload),
            "authority": text(service_orders.encode(signed)),
        }

    def give(self, body: Body, at: int | None = None, service: str = SERVICE) -> dict[str, Any]:
        """The document of the answer; told and missing nodes are those asked. `at` None: the last node but one.
        Raises CommandError."""
        path = str(self.lab.control_socket(at or self.lab.positions[-2]))
        found = change(path, f"/v1/{service}?budget={BUDGET_S}", 2 * BUDGET_S, body=json.dumps(body).encode())
        assert found["told"] + sum(each["count"] for each in found["missing"]) == found["asked"]
        return found


def text(data: bytes) -> str:
    """Bytes in a body."""
    return base64.b64encode(data).decode()


def times(lab: Lab, name: str) -> dict[int, int]:
    """How often each node has acted on orders with this name, by position."""
    files = {each: lab.directory.node(each) / name for each in lab.positions}
    return {each: file.read_text().count("\n") if file.exists() else 0 for each, file in files.items()}
