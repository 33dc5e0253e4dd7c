"""What nodes say of records that wait, and the document of all answers."""

from __future__ import annotations

import msgspec
import pytest

from subord.api.query.orders import Answered, covered
from subord.core.carriage.engine.interface import Answer
from subord.core.carriage.engine.ranges import Ranges
from subord.services.account.core import CLASS_MAX, SINKS_HEARD, AccountDocument, Waiting, class_of, document, waiting
from tests.api.fake_node_api import FakeNode, World

NOW = 1_800_000_000.0


@pytest.mark.parametrize(("number", "found"), [(-5, 0), (0, 0), (1, 1), (1.9, 1), (2, 2), (7, 3), (8, 4), (1e30, 40)])
def test_classes(number: float, found: int) -> None:
    assert class_of(number) == found <= CLASS_MAX


def with_records(records: int, size: int, age_s: float) -> FakeNode:
    node = World().node(4)
    counters = node.counters
    counters.spool_state = "keeps"
    counters.spool_records, counters.spool_bytes, counters.spool_oldest_at = records, size, NOW - age_s
    return node


def test_nodes_with_much_the_same_say_the_same() -> None:
    assert waiting(with_records(5, 500, 40), NOW) == waiting(with_records(7, 511, 63), NOW)
    assert waiting(with_records(5, 500, 40), NOW) != waiting(with_records(8, 500, 40), NOW)
    assert waiting(with_records(0, 0, NOW), NOW) == Waiting("", False, "keeps")


def test_a_clock_that_went_back_makes_no_negative_age() -> None:
    assert waiting(with_records(1, 100, -3600), NOW).oldest_s == 0


def test_what_a_node_reaches(monkeypatch: pytest.MonkeyPatch) -> None:
    node = World().node(4)
    assert waiting(node, NOW) == Waiting("", False, "")
    monkeypatch.setattr(node.orders, "sizes", lambda: {SINKS_HEARD: 1})
    assert waiting(node, NOW).reaches
    monkeypatch.undo()
    node.counters.sink_state = "stores"
    assert waiting(node, NOW) == Waiting("stores", True, "")
    node.counters.sink_state = "fails"
    assert waiting(node, NOW) == Waiting("fails", False, "")


def test_the_oldest_records_are_shown_first() -> None:
    node = World().node(1)
    said = [Waiting("", True, "keeps"), Waiting("", True, "keeps", 3, 9, 6), Waiting("stores", True, "")]
    groups = tuple((msgspec.msgpack.encode(each), Ranges.of((at,))) for at, each in enumerate(said, 1))
    answer = Answer(targets=Ranges.of((1, 2, 3)), groups=groups)
    found = document(Answered(node, answer, covered(node, answer, 0.1)))
    assert isinstance(found, AccountDocument)
    first, second, third = found.spools
    assert (first.addresses, first.records_max, first.bytes_max, first.oldest_s_max) == (("10.0.0.2",), 7, 511, 64)
    assert (second.sink, second.oldest_s_max) == ("stores", None)
    assert (third.sink, third.spool, third.reaches_sink) == (None, "keeps", True)


@pytest.mark.parametrize("said", [b"", b"\xff", msgspec.msgpack.encode(("", True, "keeps", 41, 0, 0))])
def test_a_false_answer_is_passed_over(said: bytes) -> None:
    node = World().node(1)
    answer = Answer(targets=Ranges.of((1,)), groups=((said, Ranges.of((1,))),))
    found = document(Answered(node, answer, covered(node, answer, 0.1)))
    assert isinstance(found, AccountDocument)
    assert found.spools == ()


def test_the_age_of_what_waits() -> None:
    counters = with_records(1, 100, 30).counters
    assert counters.spool_age_s(NOW) == 30
    assert counters.spool_age_s(NOW - 60) == 0
    counters.spool_oldest_at = 0.0
    assert counters.spool_age_s(NOW) == 0
