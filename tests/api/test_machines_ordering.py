"""What the asking node makes of signed orders to servers, and of the question which nodes are servers."""

from __future__ import annotations

from base64 import b64decode
from typing import Any

from subord.api.query.orders import Answered, asked, covered
from subord.core.carriage.engine.interface import Answer
from subord.core.carriage.engine.ranges import Ranges
from subord.services.machines.task import Answer as Said
from subord.services.machines.task import Done, NoServer, Results, decode_said, encode
from subord.services.machines.telling.ordering import ordered, where
from tests.api.machines_nodes import MachinesNodes


def answered(nodes: MachinesNodes, answer: Answer) -> Answered:
    """Of all nodes that were asked."""
    node: Any = nodes.node
    return Answered(node, answer, covered(node, answer, 0.1))


def test_results_of_orders_stand_whole_in_the_document() -> None:
    """The agent of the queue's node reads them; a command shows what came of a drain."""
    nodes = MachinesNodes()
    server = encode(Said("10.0.0.2", 16, 32000, 0, 64, 2400, 1, 7, 5.0))
    orders = encode(Results(results=(Done("it is drained"),)))
    groups = (
        (server, Ranges.of((2,))),
        (orders, Ranges.of((3,))),
        (encode(Results("no plan")), Ranges.of((4,))),
        (encode(Results(is_changed=True)), Ranges.of((5, 6))),
        (encode(NoServer()), Ranges.of((7,))),
        (b"\xff", Ranges.of((8,))),
    )
    found: Any = ordered(answered(nodes, Answer(targets=Ranges.of(range(2, 9)), groups=groups)))
    said = [decode_said(b64decode(each.said)) for each in found.results]
    assert said[:2] == [decode_said(server), decode_said(orders)]
    assert [(each.fault, each.changed, each.nodes) for each in found.results] == [
        ("", False, 1),
        ("", False, 1),
        ("no plan", False, 1),
        ("", True, 2),
        ("", False, 1),
    ]
    assert found.results[3].addresses == ("10.0.0.5", "10.0.0.6")
    assert (found.unread, found.told) == (1, 7)


async def test_which_nodes_are_servers_is_said_by_their_daemons() -> None:
    nodes = MachinesNodes()
    asking: Any = nodes.node
    found = where(await asked(asking, "machines", 1.0))
    assert (found.servers, found.silent) == ("2-3", "")
    silent = Answer(targets=Ranges.of((2, 3)), missing=(("no answer", Ranges.of((2,))), ("down", Ranges.of((3,)))))
    found = where(answered(nodes, silent))
    assert (found.servers, found.silent) == ("", "2-3")
