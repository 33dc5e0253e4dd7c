"""`/v1/ping`: what its query may be."""

from __future__ import annotations

import pytest

from subord.services.serving import service_app, targets_of
from tests.api.fake_node_api import World

SIZE = 254


@pytest.mark.parametrize(
    ("text", "expected"), [(None, "None"), ("3", "3"), ("1-3,7", "1-3,7"), ("7,1-3,4", "1-4,7"), ("254", "254")]
)
def test_ranges_of_positions(text: str | None, expected: str) -> None:
    assert str(targets_of(text, SIZE)) == expected


@pytest.mark.parametrize("text", ["", "x", "0", "255", "3-1", "1-", "-1", "1,,2", "1-2-3", "9" * 5000])
def test_what_is_no_range(text: str) -> None:
    with pytest.raises(ValueError, match=r"range of positions|outside the network"):
        targets_of(text, SIZE)


async def test_a_wrong_request_asks_no_node() -> None:
    node = World().node(1)
    response = await service_app(node)["/v1/ping"]({"nodes": "1-99999999"})
    assert response is not None
    assert getattr(response, "status", None) == 400
    assert node.orders.given == []


@pytest.mark.parametrize(("budget", "expected"), [("2.5", 2.5), ("99", 8.0), ("", 2.0), ("-1", 2.0)])
async def test_the_budget_is_bounded(budget: str, expected: float) -> None:
    node = World().node(1)
    await service_app(node)["/v1/ping"]({"budget": budget})
    assert node.orders.given == [("ping", None, expected)]
