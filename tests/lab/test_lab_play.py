"""The small pure parts of playing a scenario: bad input, and the table."""

import json
from dataclasses import asdict, replace

import msgspec
import pytest

from subord.core.address.network import Network
from subord.core.messages import Propose, Terms
from subord.core.settings import Settings
from subord.sim.scenario import definition
from subord.wire import codec

from .lab_helpers import netlab


def order(what):
    return netlab("scenarios.bad_input").Order(
        targets=("10.0.0.1",),
        what=what,
        per_s=10,
        for_s=1,
        seed="1/2",
        network="10.0.0.0/24",
        fanout=2,
        guest_slots=2,
        numbering="complete",
        timing="lan",
    )


@pytest.mark.parametrize(
    ("what", "faults"),
    [
        ("malformed", {codec.Fault.MALFORMED}),
        ("oversized", {codec.Fault.OVERSIZED}),
        ("version", {codec.Fault.VERSION}),
    ],
)
def test_bad_input_is_refused_for_the_right_reason(what, faults):
    make = netlab("scenarios.bad_input").datagrams(order(what))
    said = [make() for _ in range(500)]
    assert {codec.decode(data) for data in said} == faults
    assert len({len(data) for data in said}) > 50  # of many lengths
    assert max(map(len, said)) <= 60_000
    again = netlab("scenarios.bad_input").datagrams(order(what))
    assert [again() for _ in range(500)] == said  # the seed decides


def test_foreign_proposals_differ_in_the_fan_out_alone():
    message = codec.decode(netlab("scenarios.bad_input").datagrams(order("terms"))())
    assert isinstance(message, Propose)
    ours = Terms.of(Settings(network=Network.parse("10.0.0.0/24"), fanout=2, guest_slots=2))
    assert message.terms == msgspec.structs.replace(ours, fanout=3)


def test_an_order_survives_its_way_into_the_namespace():
    module = netlab("scenarios.bad_input")
    assert module.Order(**json.loads(json.dumps(asdict(order("terms"))))) == replace(
        order("terms"), targets=["10.0.0.1"]
    )


def results():
    report = netlab("scenarios.report")
    cluster, step = definition.Cluster(nodes=5), definition.Expect(within_s=1)

    def seen(whole_s, moved, outside, attached_s, *, never=(), faults=()):
        return report.Seen(
            whole_s=whole_s,
            moves=len(moved),
            moved=list(moved),
            outside=list(outside),
            attached_s=list(attached_s),
            never=list(never),
            faults=list(faults),
        )

    good = report.Result(file="there/good.toml", title="Good", cluster=cluster, seed=1, lasted_s=9.0)
    good.steps = [
        report.PlayedStep(number=1, at_s=0.0, step=definition.Start(), seen=None),
        report.PlayedStep(number=2, at_s=0.1, step=step, seen=seen(2.5, [4, 5], [], [0.2, 0.9])),
        report.PlayedStep(number=3, at_s=4.0, step=step, seen=seen(1.0, [4], [], [0.1])),
    ]
    bad = report.Result(file="there/bad.toml", title="Bad", cluster=cluster, seed=1, failure="step 1: no")
    bad.steps = [
        report.PlayedStep(number=1, at_s=0.0, step=step, seen=seen(None, [2, 3], [3], [], never=[2], faults=["no"]))
    ]
    return [good, bad]


def test_table():
    title, good, bad, reason = netlab("scenarios.report").table(results()).splitlines()
    assert title.split()[:3] == ["scenario", "nodes", "result"]
    assert good.split() == ["good", "5", "ok", "2.50", "3", "0", "3", "0.20", "0.90", "9.00"]
    assert bad.split() == ["bad", "5", "FAILED", "-", "2", "1", "1", "-", "-", "0.00"]
    assert reason == "there/bad.toml: step 1: no"


def test_document(tmp_path):
    netlab("scenarios.report").write(tmp_path / "seen.json", results())
    document = json.loads((tmp_path / "seen.json").read_text())
    good, bad = document["scenarios"]
    assert document["machine"]["cores"] >= 1
    assert [step["step"]["do"] for step in good["steps"]] == ["start", "expect", "expect"]
    assert good["steps"][1]["seen"]["attached_s"] == [0.2, 0.9]
    assert (bad["failure"], bad["steps"][0]["seen"]["faults"]) == ("step 1: no", ["no"])


def test_an_expectation_in_words():
    (good, bad) = results()
    assert good.steps[1].seen.in_words() == (
        "whole after 2.50 s, 2 moves (4-5), 2 orphans, attached p50 0.20 s, p99 0.90 s"
    )
    assert bad.steps[0].seen.in_words() == (
        "not whole, 2 moves (2-3), 1 orphans, attached p50 - s, p99 - s  FAILED: no"
    )
