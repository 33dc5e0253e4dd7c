"""The plan of machines: what can be read, what is refused with which words, and what jobs want by it."""

from __future__ import annotations

import json
from time import process_time
from typing import Any

import pytest
from loops import over

from subord.services.machines.model import Job, Want
from subord.services.machines.plan import BODY_MAX, WANTS_MAX, Plan, PlanError, Type, encode, read, wants_of
from tests.machines.tables import PLAN

GOOD: dict[str, Any] = {
    "manager": 5,
    "types": [
        {"name": "small", "template": "debian", "queues": ["short"], "memory_mb": 1000, "image_mb": 2000},
        {"name": "large", "template": "debian", "queues": ["big"], "memory_mb": 1000, "image_mb": 2000, "slots": 4},
    ],
    "store_mb": 100_000,
}


def body(**changes: Any) -> bytes:
    return json.dumps({**GOOD, **changes}).encode()


def of_type(**changes: Any) -> dict[str, Any]:
    return {"types": [{**GOOD["types"][0], **changes}, GOOD["types"][1]]}


def test_a_plan_is_read_as_it_is_written() -> None:
    assert read(encode(PLAN)) == PLAN
    plan = read(body())
    assert (plan.manager, [each.name for each in plan.types], plan.is_off) == (5, ["small", "large"], False)
    assert read(b'{"manager": 0}').is_off


@over(
    ("changes", "word"),
    [
        ({"unknown": 1}, "unknown"),
        ({"manager": -1}, "manager"),
        (of_type(name="large"), "there are two types large"),
        (of_type(queues=["big"]), "the queue big has two types, small and large: leave it to one of them"),
        (of_type(queues=["short", "short"]), "names a queue twice"),
        (of_type(queues=[]), "queues"),
        (of_type(cores=0), "cores"),
        (of_type(cores=1025), "cores"),
        (of_type(memory_mb=0), "memory_mb"),
        (of_type(disk_mb=-1), "disk_mb"),
        (of_type(slots=0), "slots"),
        (of_type(window_s=7 * 86_400 + 1), "window_s"),
        (of_type(name="Upper"), "name"),
        (of_type(template="../etc"), "template"),
        (of_type(queues=["-f"]), "queues"),
        (of_type(image_mb=100_001), "an image of the type small has 100001 MiB, and the store of images 100000"),
        ({"period_s": 0}, "period_s"),
        ({"period_s": 301}, "period_s"),
        ({"period_s": 45}, "no server would ever be reachable"),
        ({"waits": {"batch_s": 20}}, "batch_s (20) is not above order_s (20)"),
        ({"waits": {"clone_s": 299}}, "clone_s (299) is below start_s (300)"),
        ({"waits": {"start_s": 3601}}, "start_s"),
        ({"waits": {"stop_s": 0}}, "stop_s"),
        ({"always_on": ["a b"]}, "always_on"),
        ({"always_on": ["m" * 60] * 150}, "8192 are the most"),
    ],
)
def test_a_plan_that_cannot_be_followed_is_refused(changes: dict[str, Any], word: str) -> None:
    with pytest.raises(PlanError, match=r"; nothing has changed$") as caught:
        read(body(**changes))
    assert word in str(caught.value)


@over("text", [b"", b"[]", b"{", b"\xff", b"[" * 5000, b'{"manager": 1e400}'])
def test_what_is_no_plan_is_refused(text: bytes) -> None:
    with pytest.raises(PlanError, match="cannot be read"):
        read(text)


def test_the_longest_plan() -> None:
    padded = body() + b" " * (BODY_MAX - len(body()))
    assert read(padded).manager == 5
    with pytest.raises(PlanError, match="has 8193 bytes, and 8192 are the most"):
        read(padded + b" ")


@over(
    ("job", "slots"),
    [
        (Job("1", "short"), [1]),
        (Job("1", "short", tasks=3), [1, 1, 1]),
        (Job("1", "short", slots=2), [1, 1]),
        (Job("1", "big", slots=3), [3]),
        (Job("1", "big", slots=9), [4, 4, 1]),
        (Job("1", "big", slots=0), [1]),
    ],
)
def test_what_a_job_wants(job: Job, slots: list[int]) -> None:
    plan: Plan = read(body())
    types: dict[str, Type] = plan.by_queue()
    assert wants_of((job,), types) == ([Want("1", types[job.queue].name, each) for each in slots], {})


def test_an_array_with_ever_more_tasks_takes_no_longer() -> None:
    began = process_time()
    wants, whys = wants_of((Job("1", "short", tasks=1 << 60), Job("2", "short", tasks=1 << 60)), PLAN.by_queue())
    assert (len(wants), set(whys)) == (WANTS_MAX, {"1", "2"})
    assert process_time() - began < 1
