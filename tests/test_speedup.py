"""How many cooks: against the paper's formula, against trying all numbers, and as a command."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from loops import over

from subord import cli
from subord.client.amdahl import NODES_MAX, Program, best_nodes, fault_of, speedup


@over(
    ("program", "nodes", "expected"),
    [
        (Program(0, 0, 0), 7, 7),  # all can be shared, and no node talks
        (Program(1, 0, 0), 7, 1),  # nothing can be shared: so alpha is the serial portion
        (Program(0.5, 0, 0), 2, 2 / 1.5),  # Amdahl
        (Program(0, 1, 1), 1, 0.5),
        (Program(0.01, 3, 0.0001), 12, 12 / (0.99 + 0.12 + 0.5184)),
    ],
)
def test_speedup(program: Program, nodes: int, expected: float) -> None:
    assert speedup(program, nodes) == pytest.approx(expected)


@over(
    ("program", "best"),
    [
        (Program(0.01, 3, 0.0001), 12),  # the cube root is 11.82
        (Program(1, 1, 1), 1),
        (Program(0, 1, 1), 1),  # the cube root is 0.79
        (Program(0, 0.5, 1e-6), 100),
        (Program(0.3, 0, 1), None),
        (Program(0, 1e-300, 1e-300), None),  # their product is no number any more
        (Program(0.5, 1e-100, 1e-100), None),  # more nodes than there are
    ],
)
def test_the_best_number_of_nodes(program: Program, best: int | None) -> None:
    assert best_nodes(program) == best


@given(st.floats(0, 1), st.floats(0, 20), st.floats(1e-7, 10))
def test_no_other_number_is_better(alpha: float, beta: float, gamma: float) -> None:
    program = Program(alpha, beta, gamma)
    best = best_nodes(program)
    if best is None:
        assert speedup(program, NODES_MAX) >= speedup(program, NODES_MAX // 2)
    elif best <= 1000:
        most = max(speedup(program, nodes) for nodes in range(1, 2 * best + 10))
        assert speedup(program, best) == pytest.approx(most, rel=1e-12)


@pytest.mark.parametrize(
    ("program", "words"),
    [
        (Program(-0.1, 1, 1), "alpha must be from 0 to 1, not -0.1"),
        (Program(float("nan"), 1, 1), "alpha must be from 0 to 1, not nan"),
        (Program(0, -1, 1), "beta must be 0 or more, not -1"),
        (Program(0, 1, float("inf")), "gamma must be 0 or more, not inf"),
    ],
)
def test_wrong_numbers_are_named(program: Program, words: str, capsys: pytest.CaptureFixture[str]) -> None:
    fault = fault_of(program)
    assert fault is not None
    assert words in fault
    alpha, beta, gamma = map(str, program)
    assert cli.main(["speedup", f"--alpha={alpha}", f"--beta={beta}", f"--gamma={gamma}"]) == 2
    assert words in capsys.readouterr().err


def test_the_command_for_people(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["speedup", "--alpha", "0.01", "--beta", "3", "--gamma", "0.0001"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "best on 12 nodes: 7.369 times as fast"
    assert lines[2:8] == [
        "  nodes  times as fast",
        "      3  2.918",
        "      6  5.382",
        "     12  7.369",
        "     24  4.463",
        "     48  1.385",
    ]
    assert "HPCS 2015" in lines[-1]


def test_the_command_for_programs(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["speedup", "--alpha", "0.25", "--beta", "0", "--gamma", "1", "--nodes", "4", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["best"] is None
    assert {"nodes": 4, "speedup": pytest.approx(4 / 1.75)} in answer["points"]


def test_without_an_end_it_says_what_is_the_most(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["speedup", "--alpha", "0.25", "--beta", "0", "--gamma", "1"]) == 0
    assert "never more than 4 times as fast" in capsys.readouterr().out
    assert cli.main(["speedup", "--alpha", "0", "--beta", "0", "--gamma", "1", "--nodes", "0"]) == 2
    assert "argument --nodes: from 1 to 1000000000, not 0" in capsys.readouterr().err
