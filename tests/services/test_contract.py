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
from subord.api.query.orders import Answered, covered
from subord.cli import COMMANDS, parser
from subord.core.carriage.engine.bounds import RESULT_BYTES_MAX, SERVICE_CHARS_MAX
from subord.core.carriage.engine.causes import SENTENCES
from subord.core.carriage.engine.interface import Answer
from subord.core.carriage.engine.ranges import Ranges
from subord.core.carriage.reports.bounds import INTERVAL_S_MAX, INTERVAL_S_MIN
from subord.core.carriage.reports.records import fitted, read
from subord.services import NAMES, WORDS
from subord.services.acting import carries_out_orders
from subord.services.contract import Service
from subord.services.exec.outcome import Ended, encode
from subord.services.files.outcome import Pushed
from subord.services.files.sets.results import encode as encode_pushed
from subord.services.serving import effects, publishings, readings, service, service_app, signed_handlers
from tests.api.fake_node_api import World

DOCS = Path(__file__).resolve().parents[2] / "docs"

ACTIONS = {
    "key": "list",
    "files": "push",
    "account": "status",
    "shares": "status",
    "hosts": "status",
    "elastic": "status",
    "machines": "status",
    "transfer": "status",
}
"""The action that asks, of commands with several."""

RESULTS = {"exec": encode(Ended("exited", 3)), "files": encode_pushed(Pushed("changed", 1))}
"""Of services with effects, whose results are those of agents."""

each_service = pytest.mark.parametrize("name", NAMES)


async def result_of(name: str, position: int) -> bytes:
    one, node = service(name), World().node(position)
    if name not in readings(node):
        return RESULTS[name]
    return await readings(node)[name](one.payload("") if isinstance(one, Service) else b"")


def test_the_names_are_words() -> None:
    assert len(set(NAMES)) == len(NAMES)
    assert all(name.isidentifier() and name.islower() and len(name) <= SERVICE_CHARS_MAX for name in NAMES)


@each_service
async def test_an_answer_is_bounded_and_equal_on_equal_nodes(name: str) -> None:
    """Four and five have the same level, leader and subordinates, so what they say travels as one."""
    one = service(name)
    assert (name in effects()) is (isinstance(one, Service) and one.has_effects)
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
        made = one.document(Answered(node, answer, covered(node, answer, 0.25)))
        found = made if isinstance(made, CoverageDocument) else made.coverage
        assert found is not None
        assert found.told + sum(each.count for each in found.missing) == found.asked == len(answer.targets)
        assert found.complete is answer.is_whole
        assert found.oldest_ms == 250
        msgspec.json.encode(made)


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
    assert name in (*readings(node), *effects())
    assert carries_out_orders(name) is (name in effects())
    assert (f"/v1/{name}" in signed_handlers(node)) is (name in effects())


@each_service
def test_its_command_has_help_and_its_document_a_schema(name: str) -> None:
    word = WORDS.get(name, name)
    assert COMMANDS[word] == f"subord.services.{name}.command"
    assert word in parser(word).format_help()
    actions = argparse.ArgumentParser().add_subparsers()
    importlib.import_module(COMMANDS[word]).add(actions)
    ask = actions.choices[word]
    if word in ACTIONS:
        (ask,) = (each.choices[ACTIONS[word]] for each in ask._actions if isinstance(each.choices, dict))
    assert "--timeout" in ask.format_help()
    schema = json.loads((DOCS / "schemas" / f"{'-'.join((word, *ACTIONS.get(word, '').split()))}.json").read_text())
    assert "missing" in json.dumps(schema)


@each_service
def test_its_package_says_what_it_is(name: str) -> None:
    said = importlib.import_module(f"subord.services.{name}").__doc__ or ""
    assert said.startswith(f"`subord {WORDS.get(name, name)}`:")


def test_every_cause_has_a_sentence() -> None:
    assert all(sentence and not sentence.endswith(".") for sentence in SENTENCES.values())
