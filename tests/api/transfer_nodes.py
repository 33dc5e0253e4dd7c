"""The tree of eleven nodes with transfer queues: the first node is the transfer host, with Grid Engine."""

from __future__ import annotations

from typing import Any

from subord.config.schema import TransferConfig
from subord.core.carriage.documents import TRANSFER
from subord.runtime.transfer.state import COMES, LEAVES, OTHER_NODE, TRANSFERS, JobState, State
from subord.services.transfer.plan import Peer, Plan, TransferQueue, User, decode_plan, encode_plan
from tests.api.tree_nodes import TreeNodes

CERTIFICATE = (
    "MIIBajCCARCgAwIBAgIUYxaN6PNYmuwxIeYSvNNX5RbMU+UwCgYIKoZIzj0EAwIwKzEpMCcGA1UEAwwgc3Vib3JkIHRyYW5zZmVy"
    "IDAxZDdkYjI5ODdiNWI1ZDUwIBcNNzAwMTAxMDAwMDAwWhgPOTk5OTEyMzEwMDAwMDBaMCsxKTAnBgNVBAMMIHN1Ym9yZCB0cmFu"
    "c2ZlciAwMWQ3ZGIyOTg3YjViNWQ1MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEXrH+arP2iFKo2qhdx1tAXSD1W8RTApDGyEtB"
    "1O3ltlxWWazbKO0aCVm7VWFaxbLJsV8+0iNLUHjNYCXstBGjYqMQMA4wDAYDVR0TAQH/BAIwADAKBggqhkjOPQQDAgNIADBFAiEA"
    "gf5rf3cfHS47cdnpEicXvEfye28me7TEEwVC140Nrb4CIBTM7eaodZjjSDx9wEWT24yURsCy1PC7meE7pQm45lz1"
)
"""Made for tests as `subord transfer key` makes one; its key is thrown away."""
PEER = Peer(name="south", addresses=("10.0.1.5:9720",), certificates=(CERTIFICATE,))
PLAN = Plan(
    host=1,
    cluster="north",
    peer=PEER,
    queues=(TransferQueue(name="transfer"),),
    slots_max=16,
    users=(User(theirs="eve", ours="ann"),),
)
LEAVING = JobState(LEAVES, "12", 0, "ann", "abroad", "1001", "running", "run", 1_795_682_000.0)
STUCK = JobState(LEAVES, "9", 3, "bob", "unknown", "990", "", "run", 1_795_681_000.0, "its end is not known")
COMING = JobState(COMES, "77", 0, "ann", "here", "455", "suspended", "suspended", 1_795_682_100.0)


class TransferNodes(TreeNodes):
    """`node` is asked by the commands."""

    service = "transfer"
    document = TRANSFER

    def __init__(self, asked: int = 7) -> None:
        super().__init__(asked)
        self.configure(1, batch="gridengine")

    @property
    def plan(self) -> Plan | None:
        """What the asked node holds."""
        return None if self.held is None else decode_plan(self.held.order.body)

    def configure(self, position: int, **fields: Any) -> None:
        self.of(position).config = TransferConfig(**fields)

    def hold(self, version: int, plan: Plan | bytes = PLAN, principal: str = "ann") -> None:
        """The asked node has this plan, or a document with this body."""
        self.take_body(version, plan if isinstance(plan, bytes) else encode_plan(plan), principal)

    def transfer(self, version: int = 2, plan: Plan = PLAN, **fields: Any) -> State:
        """All nodes follow a plan; the first one is the transfer host."""
        self.hold(version, plan)
        self.say(State(word=OTHER_NODE, version=version))
        given: dict[str, Any] = {
            "batch": "gridengine",
            "cluster": plan.cluster,
            "peer": plan.peer_name,
            "slots_max": plan.slots_max,
            "idle_max": plan.idle,
            "poll_s": plan.poll_s,
            "at": self.now - 3,
            "heard_at": self.now - 1.5,
            "asked_at": self.now - 2,
            "is_up": True,
            "peer_pending": 2,
            "offer": 3,
            "pending": 1,
            "room": 4,
            "permits_given": 1,
            "starters": 2,
            "leaving": {"abroad": 1, "unknown": 1},
            "coming": {"suspended": 1},
            "left": {"left": 40, "ended": 38},
            "messages": {"asked": 12},
            "jobs": (STUCK, LEAVING, COMING),
        }
        found = State(word=TRANSFERS, version=version, **{**given, **fields})
        self.say(found, 1)
        return found
