"""The tree of eleven nodes with transfer queues: the first node is the transfer host, with Grid Engine."""

from __future__ import annotations

from typing import Any

from subord.config.schema import TransferConfig
from subord.core.carriage.documents import NEVER_MS, TRANSFER, Document
from subord.core.carriage.orders import Order, Verdict
from subord.runtime.transfer.state import COMES, LEAVES, OTHER_NODE, TRANSFERS, JobState, State
from subord.services.transfer.plan import Peer, Plan, TransferQueue, decode_plan, encode_plan
from tests.api.fake_node_api import FakeNode, World

AT_MS = 1_795_682_000_000
DER = "MIIBBTCBrAIUMA=="
CERTIFICATE = "MIICAA==" if False else ""
