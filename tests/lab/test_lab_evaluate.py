"""The paper's tests, run again: `evaluate discovery` and `evaluate stability`, on few nodes."""

import csv
import json

import pytest
from loops import over

from .lab_helpers import need_neighbours, netlab, refused, run_lab

pytestmark = pytest.mark.lab(few=True)

FILM_S = 6  # far more than five nodes need, also on a busy machine


@over(
    ("nodes", "sparse", "expected"),
    [
        (2, False, "10.0.0.1-10.0.0.2"),
        (300, False, "10.0.0.1-10.0.1.44"),
        (4, True, "10.0.0.0/24"),
        (50, True, "10.0.0.0/20"),
        (64, True, "10.0.0.0/20"),
        (65, True, "10.0.0.0/19"),
    ],
)
def test_networks(nodes, sparse, expected):
    assert netlab("experiments.discovery").network(nodes, sparse=sparse) == expected


def test_discovery(tmp_path):
    need_neighbours()
    file = tmp_path / "figures.json"
    result = run_lab("evaluate", "discovery", "--nodes", 4, "--repeat", 1, "--json", file, timeout=300)
    assert result.returncode == 0, result.stderr
    runs = {run["mode"]: run for run in json.loads(file.read_text())}
    assert list(runs) == ["mapping", "scan", "cold", "warm"]
    assert {run["roots"] for run in runs.values()} == {1}
    assert runs["scan"]["network"] == runs["mapping"]["network"] == "10.0.0.1-10.0.0.4"
    assert runs["scan"]["leaders"] == runs["mapping"]["leaders"] == 1
    # Three questions, of which a proposal to the leader is none, and three answers; some beats may be missing.
    assert runs["scan"]["frames_per_node"] >= runs["mapping"]["frames_per_node"] + 4
    assert runs["warm"]["built_s"] < runs["cold"]["built_s"]
    assert runs["warm"]["frames_per_node"] < runs["cold"]["frames_per_node"]  # the search before is not in it
    with file.with_suffix(".csv").open() as table:
        rows = list(csv.DictReader(table))
    assert [row["mode"] for row in rows] == list(runs)
    assert float(rows[0]["built_s"]) == pytest.approx(runs["mapping"]["built_s"])
    assert rows[0]["machine.cores"] == str(runs["mapping"]["machine"]["cores"])


def test_stability(tmp_path):
    file = tmp_path / "figures.json"
    arguments = [
        "--nodes",
        "3,5",
        "--fanout",
        "2",
        "--repeat",
        1,
        "--seconds",
        FILM_S,
        "--events",
        tmp_path,
        "--json",
        file,
    ]
    result = run_lab("evaluate", "stability", *arguments, "--json", file)
    assert result.returncode == 0, result.stderr
    three, five = json.loads(file.read_text())
    assert (three["nodes"], five["nodes"]) == (3, 5)
    assert (five["fault"], five["roots"], five["depth"], five["placed"]) == (None, 1, 2, 5)
    assert 0 < five["last_change_s"] < five["filmed_s"] == FILM_S
    events = [json.loads(line) for line in (tmp_path / "stability-5-2-0.jsonl").read_text().splitlines()]
    begun_at = min(event["mono"] for event in events if event["event"] == "lab_forked")
    film = [event for event in events if event["event"] == "place" and event["mono"] <= begun_at + FILM_S]
    assert len(film) == sum(five["places_by_second"]) == pytest.approx(5 * five["places_per_node"])
    assert len({event["node"] for event in film}) == 5  # a late node may be a guest first, and have two places
    assert "one root" in result.stdout


def test_sealed_and_in_the_clear():
    """Both at rest; the same words are longer when they are sealed.

    The mean is of all packets: acknowledgements are as long in the clear, and a report is longer than a
    sealed beat. Twelve seconds hold each kind several times; three held a report by chance.
    """
    sealing = netlab("experiments.sealing")
    plan = sealing.Plan(nodes=(4,), repeat=1, rest_s=12.0)
    found = {run.about["way"]: {**run.about, "fault": None, **run.measure()} for run in plan.runs()}
    assert {way: run["sealed"] for way, run in found.items()} == {"sealed": True, "in the clear": False}
    assert all(map(sealing.is_whole, found.values()))
    sealed, clear = found.values()
    assert sealed["rest_bytes_per_s"] / sealed["rest_packets_per_s"] > (
        clear["rest_bytes_per_s"] / clear["rest_packets_per_s"]
    )
    assert "in the clear" in sealing.table(list(found.values()))


@over(
    ("arguments", "code", "words"),
    [
        (("discovery", "--modes", "mapping,teleport"), 2, "`teleport`: choose from mapping, scan, cold, warm"),
        (("discovery", "--json", "figures.txt"), 1, "must end in .json"),
        (("stability", "--json", "no/such/figures.json"), 1, "no directory that we may write to"),
        (("stability", "--events", "no-such", "--nodes", "2", "--seconds", "1"), 1, "no directory"),
        ((), 2, "TEST"),
    ],
)
def test_wrong_input(tmp_path, arguments, code, words):
    result = refused("evaluate", *arguments, cwd=tmp_path)
    assert result.returncode == code
    assert words in result.stderr
    assert "Traceback" not in result.stderr
