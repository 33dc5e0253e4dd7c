"""The contract of every registered service: bounded and equal answers, true coverage, a path, a schema, and help."""

from __future__ import annotations

import argparse
import importlib
import json
from collections import Counter
from pathlib import Path

import msgspec
import pytest

from subord.api.models.coverage import CoverageDocument
from subord.cli import COMMANDS, parser
from subord.core.carriage.engine.bounds import RESULT_BYTES_MAX, SERVICE_CHARS_MAX
from subord.core.carriage.engine.causes import SENTENCES
from subord.core.carriage.engine.interface import Answer
from subord.core.carriage.engine.ranges import Ranges
from subord.core.carriage.reports.bounds import INTERVAL_S_MAX, INTERVAL_S_MIN
from subord.core.carriage.reports.records import fitted, read
from subord.services import NAMES
from subord.services.contract import Answered, Service
from subord.services.serving import coverage, publishings, readings, service, service_app
from tests.api.fake_node_api import World

DOCS = Path(__file__).resolve().parents[2] / "docs"

each_service = pytest.mark.parametrize("name", NAMES)


async def result_of(name: str, position: int) -> bytes:
    one, node = service(name), World().node(position)
    return await readings(node)[name](one.payload("") if isinstance(one, Service) else b"")


def test_the_names_are_words() -> None:
    assert len(set(NAMES)) == len(NAMES)
    assert all(name.isidentifier() and name.islower() and len(name) <= SERVICE_CHARS_MAX for name in NAMES)


@each_service
async def test_an_answer_is_bounded_and_equal_on_equal_nodes(name: str) -> None:
    """Four and five have the same level, leader and subordinates, so what they say travels as one."""
    results = [await result_of(name, position) for position in (4, 5)]
    assert results[0] == results[1]
    assert len(results[0]) <= RESULT_BYTES_MAX


@each_service
async def test_the_document_covers_all_targets(name: str) -> None:
    one, node = service(name), World().node(1)
    result = await result_of(name, 4)
    answers = [
        Answer(
            targets=Ranges.of((1, 2, 3)), groups=((result, Ranges.of((1, 3))),), missing=(("down", Ranges.of((2,))),)
        ),
        Answer(targets=Ranges.of((1, 2)), groups=((result, Ranges.of((1,))),), others=Ranges.of((2,))),
        Answer(targets=Ranges.of((1,)), missing=(("no coordinator", Ranges.of((1,))),), is_resolved=False),
        Answer(targets=Ranges.of((1, 2)), groups=((b"\xff" * 9, Ranges.of((1, 2))),)),  # of another release
    ]
    for answer in answers:
        found = one.document(Answered(node, answer, 0.25, coverage(node, answer, 0.25)))
        assert isinstance(found, CoverageDocument)
        assert found.told + sum(each.count for each in found.missing) == found.asked == len(answer.targets)
        assert found.complete is answer.is_whole
        assert found.oldest_ms == 250
        msgspec.json.encode(found)


async def test_a_record_is_bounded_and_of_the_algebra() -> None:
    for publishing in publishings().values():
        record = await publishing.record(World().node(4))
        found = fitted(record)
        assert not found.left_out
        assert read(found.fields, Counter()) == record
        assert INTERVAL_S_MIN <= publishing.interval_s <= INTERVAL_S_MAX


@each_service
async def test_it_is_served_and_answered(name: str) -> None:
    node = World().node(1)
    assert f"/v1/{name}" in service_app(node)
    assert name in readings(node)


@each_service
def test_its_command_has_help_and_its_document_a_schema(name: str) -> None:
    assert COMMANDS[name] == f"subord.services.{name}.command"
    text = parser(name).format_help()
    assert name in text
    actions = argparse.ArgumentParser().add_subparsers()
    importlib.import_module(COMMANDS[name]).add(actions)
    assert "--timeout" in next(iter(actions.choices.values())).format_help()
    schema = json.loads((DOCS / "schemas" / f"{name}.json").read_text())
    assert "missing" in json.dumps(schema)


@each_service
def test_its_package_says_what_it_is(name: str) -> None:
    said = importlib.import_module(f"subord.services.{name}").__doc__ or ""
    assert said.startswith(f"`subord {name}`:")


def test_every_cause_has_a_sentence() -> None:
    assert all(sentence and not sentence.endswith(".") for sentence in SENTENCES.values())
