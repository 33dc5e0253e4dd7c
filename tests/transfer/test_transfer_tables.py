"""Thresholds, idleness, permits, the sensor, and what jobs become on the other side, as tables."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from loops import over
from msgspec.structs import replace

from subord.services.transfer.jobs import Key, Spec, key_of
from subord.services.transfer.local import request_in
from subord.services.transfer.mapping import Stays, local_user, mapped
from subord.services.transfer.permits import Held, Permits, Room, margin
from subord.services.transfer.plan import (
    Parallel,
    Peer,
    Plan,
    PlanError,
    Request,
    TransferQueue,
    User,
    decode_plan,
    encode_plan,
)
from subord.services.transfer.thresholds import (
    NOT_KNOWN,
    SENSOR_S,
    SENSOR_S_MAX,
    advice,
    idle_margin,
    is_alarm,
    is_idle,
    sensed,
    sensor_fault,
    threshold_of,
)

PLAN = Plan(
    host=5,
    cluster="alpha",
    peer=Peer(name="beta", addresses=("10.0.1.5:7946",), certificates=("MIIAAA==",)),
    queues=(
        TransferQueue(name="transfer", queue="all.q"),
        TransferQueue(name="large", requests=(("mem_free", "64G"),)),
    ),
    slots_max=40,
    users=(User(theirs="ada", ours="alovelace"),),
    same_users=False,
    requests=(
        Request(name="fast", to="ssd", values=(("TRUE", "1"),)),
        Request(name="arch", to="arch", values=(("lx-amd64", "lx26-amd64"),), is_closed=True),
        Request(name="room", to=""),
    ),
    parallels=(Parallel(name="smp", to="threads"),),
)
SPEC = Spec(user="ada", name="job", script="true")


# -- the text: "5" alarms at 5; idle is N or fewer; the sensor reports every 9 s; a poll takes at least 5 s ---------


@over(("pending", "alarm"), [(0, False), (4, False), (5, True), (6, True)])
def test_a_threshold_of_5_alarms_at_5(pending: int, alarm: bool) -> None:
    assert is_alarm(pending, 5) is alarm


@over(("most", "pending"), [(most, pending) for most in (0, 4, 10) for pending in range(13)])
def test_the_alarm_is_where_idleness_ends(most: int, pending: int) -> None:
    assert is_alarm(pending, threshold_of(most)) is not is_idle(pending, most)
    assert is_idle(pending, None)


@over(
    ("pending", "most", "jobs"),
    [(0, 0, 1), (1, 0, 0), (0, 4, 5), (4, 4, 1), (5, 4, 0), (90, 4, 0), (7, None, None)],
)
def test_how_many_come_before_a_cluster_is_not_idle(pending: int, most: int | None, jobs: int | None) -> None:
    assert idle_margin(pending, most) == jobs


@over(
    ("pending", "age_s", "value"),
    [(0, 0.0, 0), (7, 15.0, 7), (7, 15.1, NOT_KNOWN), (None, 0.0, NOT_KNOWN), (10**6, 0.0, NOT_KNOWN)],
)
def test_what_the_sensor_tells(pending: int | None, age_s: float, value: int) -> None:
    assert sensed(pending, age_s, 5) == value
    assert SENSOR_S == 9


@over(
    ("batch", "queues", "silent_s", "is_told"),
    [
        ("gridengine", PLAN.queues, SENSOR_S_MAX, False),
        ("gridengine", PLAN.queues, SENSOR_S_MAX + 0.1, True),
        ("gridengine", (), 1000.0, False),
        ("slurm", PLAN.queues, 1000.0, False),
    ],
)
def test_a_sensor_is_missed_where_there_is_one(
    batch: str, queues: tuple[object, ...], silent_s: float, *, is_told: bool
) -> None:
    assert bool(sensor_fault(batch, queues, silent_s)) == is_told


@over(
    ("slots", "many", "expected"),
    [(400, False, (100, 40)), (400, True, (40, None)), (2, False, (1, 0)), (2, True, (1, None))],
)
def test_what_the_text_recommends(slots: int, many: bool, expected: tuple[int, int | None]) -> None:
    assert advice(slots, is_high_throughput=many) == expected


@over(("poll_s", "is_right"), [(4, False), (5, True), (300, True), (301, False)])
def test_the_least_poll(poll_s: int, is_right: bool) -> None:
    body = encode_plan(replace(PLAN, poll_s=poll_s, lease_s=600))
    if is_right:
        assert decode_plan(body).poll_s == poll_s
    else:
        with pytest.raises(PlanError, match="poll_s"):
            decode_plan(body)


# -- permits --------------------------------------------------------------------------------------------------------


@over(
    ("room", "permits", "offered"),
    [
        (Room(10, None, 0, 0, 0, 999), 0, 10),
        (Room(10, None, 6, 0, 0, 999), 3, 1),
        (Room(10, None, 12, 0, 0, 999), 0, 0),
        (Room(10, 4, 0, 0, 0, 999), 0, 5),
        (Room(10, 4, 0, 2, 1, 999), 1, 1),
        (Room(10, 4, 0, 5, 0, 999), 0, 0),
        (Room(10, 4, 0, None, 0, 999), 0, 0),
        (Room(10, None, 0, 0, 0, 3), 1, 2),
        (Room(0, None, 0, 0, 0, 999), 0, 0),
    ],
)
def test_the_margin(room: Room, permits: int, offered: int) -> None:
    assert margin(room, permits) == offered


@over("burst", [12, 100, 1000])
def test_a_burst_never_exceeds_the_permits(burst: int) -> None:
    permits = Permits()
    room = Room(40, 29, 0, 0, 0, 10**5)
    granted = [len(permits.grant(burst, room, float(second), 30.0)) for second in range(5)]
    assert granted[0] == min(burst, 30)
    assert sum(granted) == 30


def test_a_permit_is_used_once_and_within_its_lease() -> None:
    permits = Permits()
    room = Room(3, None, 0, 0, 0, 99)
    first, second, third = permits.grant(3, room, 0.0, 30.0)
    assert permits.use(first, 29.9)
    assert not permits.use(first, 29.9)
    assert not permits.use(second, 30.0)
    assert not permits.use(999, 1.0)
    permits.expire(30.0)
    assert not permits.use(third, 1.0)
    assert len(permits) == 0


def test_what_the_other_side_does_not_hold_is_given_back() -> None:
    permits = Permits()
    room = Room(3, None, 0, 0, 0, 99)
    first, second, _ = permits.grant(3, room, 0.0, 30.0)
    permits.keep((first, 12345))
    assert len(permits) == 1
    assert not permits.use(second, 1.0)
    assert len(permits.grant(9, room, 1.0, 30.0)) == 2


def test_held_permits_end_earlier_by_the_own_clock() -> None:
    held = Held()
    held.take(7, (1, 2, 3), asked_at=100.0, lease_s=30.0)
    assert held.numbers(126.9) == (1, 2, 3)
    held.limit(2)
    assert held.spend(126.9) == 1
    assert held.spend(127.0) is None, "after nine tenths of the lease"
    held.take(7, (4,), asked_at=130.0, lease_s=30.0)
    held.meet(8)
    assert held.spend(130.0) is None, "of another life"


# -- mapping --------------------------------------------------------------------------------------------------------


@over(
    ("queue", "asked", "expected"),
    [
        ("transfer", (), ()),
        ("transfer", (("h_rt", "60"),), (("h_rt", "60"),)),
        ("transfer", (("fast", "TRUE"),), (("ssd", "1"),)),
        ("transfer", (("fast", "2"),), (("ssd", "2"),)),
        ("transfer", (("room", "12"),), ()),
        ("transfer", (("remote", "true"),), ()),
        ("transfer", (("arch", "lx-amd64"),), (("arch", "lx26-amd64"),)),
        ("transfer@h1", (), ()),
        ("large", (("mem_free", "1G"),), (("mem_free", "64G"),)),
    ],
)
def test_requests_by_table(queue: str, asked: Any, expected: Any) -> None:
    found = mapped(PLAN, queue, replace(SPEC, requests=asked))
    assert isinstance(found, Spec)
    assert found.requests == expected
    assert found.queue == ("" if queue == "large" else "all.q")


@over(
    ("spec", "why"),
    [
        (replace(SPEC, requests=(("remote", "FALSE"),)), "remote=FALSE"),
        (replace(SPEC, requests=(("arch", "sol"),)), "arch=sol"),
        (replace(SPEC, name="sb.gamma.7.0.1700000000000"), "another cluster"),
        (replace(SPEC, environment=(("A", "x" * 16_000),) * 40), "bytes"),
        (replace(SPEC, output="a\0b"), "can be told of"),
        (replace(SPEC, arguments=("x" * 20_000,)), "can be told of"),
    ],
)
def test_what_stays_at_home(spec: Spec, why: str) -> None:
    found = mapped(PLAN, "transfer", spec)
    assert isinstance(found, Stays)
    assert why in found.reason


def test_what_is_in_no_table() -> None:
    closed = replace(PLAN, passes_others=False)
    asked = replace(SPEC, requests=(("h_rt", "60"),))
    assert isinstance(mapped(closed, "transfer", asked), Stays)
    assert isinstance(mapped(closed, "transfer", replace(SPEC, parallel="mpi")), Stays)
    soft = mapped(closed, "transfer", replace(SPEC, wishes=(("h_rt", "60"), ("fast", "TRUE"))))
    assert isinstance(soft, Spec)
    assert soft.wishes == (("ssd", "1"),)
    assert isinstance(mapped(PLAN, "other", SPEC), Stays)


@over(
    "changed",
    [
        {"user": "a\0"},
        {"directory": "/a\0"},
        {"output": "\0"},
        {"shell": "/bin/sh\0"},
        {"arguments": ["a\n\0b"]},
        {"environment": [["A", "\0"]]},
        {"requests": [["h_rt\0", "60"]]},
    ],
)
def test_words_that_no_command_can_have(changed: dict[str, Any]) -> None:
    """A message with such a job is not heeded, and neither is a starter."""
    document = msgspec.to_builtins(SPEC)
    assert msgspec.convert(document, Spec) == SPEC
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(document | changed, Spec)


def test_a_starter_names_no_path_that_cannot_be() -> None:
    line = msgspec.json.encode({"type": "start", "job": "7", "output": "a\0b"})
    with pytest.raises(ValueError, match="output"):
        request_in(line)


@over(("asked", "there"), [("", ""), ("smp", "threads"), ("mpi", "mpi")])
def test_parallel_environments(asked: str, there: str) -> None:
    found = mapped(PLAN, "transfer", replace(SPEC, parallel=asked))
    assert isinstance(found, Spec)
    assert found.parallel == there


@over(
    ("same", "theirs", "ours"),
    [
        (False, "ada", "alovelace"),
        (True, "bob", "bob"),
        (False, "bob", None),
        (True, "root", None),
        (True, "-r", None),
    ],
)
def test_users_by_table(same: bool, theirs: str, ours: str | None) -> None:
    found = local_user(replace(PLAN, same_users=same), theirs)
    assert isinstance(found, Stays) if ours is None else found == ours


# -- keys and the plan ----------------------------------------------------------------------------------------------


def test_a_key_is_in_its_mark() -> None:
    key = Key("alpha-2", "4711", 3, 1_764_178_645_123)
    assert key.mark == "sb.alpha-2.4711.3.1764178645123"
    assert key_of(key.mark) == key


@over(
    "mark", ["", "sb.alpha.1.0.0", "sb.Alpha.1.0.1", "xsb.alpha.1.0.1", "sb.alpha.1.0.1.", "sb.alpha.1.-1.1", "job"]
)
def test_what_is_no_mark(mark: str) -> None:
    assert key_of(mark) is None


@over(("uid_min", "is_right"), [(0, False), (1, True), (100_000, True), (2**32 - 1, False)])
def test_the_least_number_of_a_user(uid_min: int, is_right: bool) -> None:
    body = encode_plan(replace(PLAN, uid_min=uid_min))
    if is_right:
        assert decode_plan(body).uid_min == uid_min
    else:
        with pytest.raises(PlanError, match="uid_min"):
            decode_plan(body)


def test_a_plan_is_read_as_it_was_written() -> None:
    assert decode_plan(encode_plan(PLAN)) == PLAN
    assert decode_plan(b'{"host": 0}').is_off
    assert PLAN.idle == 4
    assert replace(PLAN, is_high_throughput=True).idle is None


@over(
    ("plan", "wrong"),
    [
        (replace(PLAN, peer=None), "no peer"),
        (replace(PLAN, cluster="beta"), "both called beta"),
        (replace(PLAN, lease_s=9), "2 polls"),
        (replace(PLAN, users=PLAN.users * 2), "user ada stands there twice"),
        (replace(PLAN, queues=PLAN.queues[:1] * 2), "queue transfer stands there twice"),
        (replace(PLAN, requests=(Request(name="a", to="b", values=(("1", "2"), ("1", "3"))),)), "value of a 1"),
        (replace(PLAN, users=(User(theirs="ada", ours="root"),)), "root"),
        (replace(PLAN, requests=(Request(name="remote", to="x"),)), "remote"),
    ],
)
def test_a_plan_that_cannot_be_followed(plan: Plan, wrong: str) -> None:
    with pytest.raises(PlanError, match=wrong):
        decode_plan(encode_plan(plan))


@over("body", [b"", b"{}", b"[" * 40_000, b'{"host": 1, "later": 2}', b'{"host": -1}'])
def test_a_plan_that_cannot_be_read(body: bytes) -> None:
    with pytest.raises(PlanError, match="nothing was changed"):
        decode_plan(body)
