"""`subord position`: the arithmetic of the tree as text and as JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from loops import over

from subord.cli import main

NETWORK = ("--network", "10.0.0.0/24")


def answer(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    assert main(["position", *words, "--json"]) == 0
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    return document


def test_the_object(capsys: pytest.CaptureFixture[str]) -> None:
    assert answer(capsys, "10.0.0.6", *NETWORK, "--fanout", "2") == {
        "schema_version": 1,
        "address": "10.0.0.6",
        "network": "10.0.0.0/24",
        "position": 6,
        "level": 2,
        "offset": 2,
        "leader": {"address": "10.0.0.3", "position": 3},
        "candidates": [
            {"address": "10.0.0.3", "position": 3, "level": 1, "offset": 1},
            {"address": "10.0.0.2", "position": 2, "level": 1, "offset": 0},
            {"address": "10.0.0.1", "position": 1, "level": 0, "offset": 0},
            {"address": "10.0.0.5", "position": 5, "level": 2, "offset": 1},
            {"address": "10.0.0.4", "position": 4, "level": 2, "offset": 0},
        ],
    }


@over(("position", "leader"), [(2, 1), (3, 1), (4, 2), (5, 2), (6, 3), (7, 3), (8, 4), (9, 4), (10, 5), (11, 5)])
def test_figure_1_of_the_paper(capsys: pytest.CaptureFixture[str], position: int, leader: int) -> None:
    found = answer(capsys, f"10.0.0.{position}", *NETWORK, "--fanout", "2")
    assert found["leader"] == {"address": f"10.0.0.{leader}", "position": leader}


def test_the_lowest_position_has_no_leader(capsys: pytest.CaptureFixture[str]) -> None:
    found = answer(capsys, "10.0.0.1", *NETWORK)
    assert (found["leader"], found["candidates"]) == (None, [])
    assert main(["position", "10.0.0.1", *NETWORK]) == 0
    assert "leader    none: the lowest position" in capsys.readouterr().out


def test_numberings_differ(capsys: pytest.CaptureFixture[str]) -> None:
    complete = answer(capsys, "10.0.0.5", *NETWORK, "--fanout", "4")
    paper = answer(capsys, "10.0.0.5", *NETWORK, "--fanout", "4", "--numbering", "paper")
    assert (complete["level"], complete["offset"]) == (1, 3)
    assert (paper["level"], paper["offset"]) == (1, 1)


def test_a_huge_network_has_ten_candidates_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    found = answer(capsys, "fd00::ffff:ffff:ffff:fff0", "--network", "fd00::/64")
    assert found["position"] == 2**64 - 16
    assert len(found["candidates"]) == 10
    assert found["candidates"][0]["address"] == found["leader"]["address"]


def test_the_spelling_of_the_address_does_not_matter(capsys: pytest.CaptureFixture[str]) -> None:
    assert answer(capsys, "FD00:0::0005", "--network", "fd00::/64")["address"] == "fd00::5"


def test_settings_from_a_configuration(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "subord.toml"
    file.write_text('[cluster]\nnetwork = "10.0.0.0/24"\nfanout = 4\nnumbering = "paper"\n')
    words = ("--fanout", "4", "--numbering", "paper")
    assert answer(capsys, "10.0.0.99", "--config", str(file)) == answer(capsys, "10.0.0.99", *NETWORK, *words)
    assert main(["position", "10.0.0.99", "--config", str(file)]) == 0
    assert "fan-out 4, paper numbering" in capsys.readouterr().out


def test_the_text_output(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["position", "10.0.0.12", *NETWORK, "--fanout", "2"]) == 0
    assert capsys.readouterr().out == (
        "10.0.0.12 in 10.0.0.0/24, fan-out 2, complete numbering\n"
        "  position  12\n"
        "  level     3\n"
        "  offset    4\n"
        "  leader    10.0.0.6 (position 6)\n"
        "\n"
        "first 10 candidates, nearest first\n"
        "  address    position  level  offset\n"
        "  10.0.0.6          6      2       2\n"
        "  10.0.0.5          5      2       1\n"
        "  10.0.0.7          7      2       3\n"
        "  10.0.0.4          4      2       0\n"
        "  10.0.0.3          3      1       1\n"
        "  10.0.0.2          2      1       0\n"
        "  10.0.0.1          1      0       0\n"
        "  10.0.0.10        10      3       2\n"
        "  10.0.0.9          9      3       1\n"
        "  10.0.0.11        11      3       3\n"
    )


@over(
    ("words", "exit_code", "line"),
    [
        (["10.0.1.6", *NETWORK], 68, "10.0.1.6 is not in the network: its positions are 1 (10.0.0.1) to 254"),
        (["fd00::1", *NETWORK], 68, "fd00::1 is not in the network: "),
        (["10.0.0.0", *NETWORK], 68, "10.0.0.0 is not in the network: "),
        (["node5", *NETWORK], 68, "no address for node5: not in the host list, not in /etc/hosts, not known to the"),
        (["10.0.0.[5-6]", *NETWORK], 2, "'10.0.0.[5-6]' names 2 nodes (10.0.0.[5-6]), not one"),
        (["10.0.0.300", *NETWORK], 2, "'10.0.0.300' is no IP address"),
        (["10.0.0.6", "--network", "10.0.0.1/24"], 2, "argument --network: '10.0.0.1/24' has host bits set"),
        (["10.0.0.6"], 2, "give --network NET or --config FILE"),
        (["10.0.0.6", "--config", "x", "--fanout", "3"], 2, "give either --config or --fanout, not both"),
        (["10.0.0.6", "--config", "x", *NETWORK], 2, "give either --config or --network, not both"),
        (["10.0.0.6", "--config", "x", "--numbering", "paper"], 2, "give either --config or --numbering, not both"),
        (["10.0.0.6", "--config", "/no/such"], 78, "/no/such: cannot read the configuration: No such file"),
    ],
)
def test_wrong_arguments(capsys: pytest.CaptureFixture[str], words: list[str], exit_code: int, line: str) -> None:
    assert main(["position", *words]) == exit_code
    captured = capsys.readouterr()
    assert captured.err.startswith(f"subord: {line}")
    assert (captured.err.count("\n"), captured.out) == (1, "")


@over("fanout", ["1", "0", "-3", "two", "2.0", "", "1025", "99999999999"])
def test_a_wrong_fanout(capsys: pytest.CaptureFixture[str], fanout: str) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["position", "10.0.0.6", *NETWORK, f"--fanout={fanout}"])
    assert caught.value.code == 2
    assert f"argument --fanout: must be a whole number from 2 to 1024, not {fanout!r}" in capsys.readouterr().err


def test_an_unknown_numbering(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["position", "10.0.0.6", *NETWORK, "--numbering", "binary"])
    assert caught.value.code == 2
    assert "argument --numbering: invalid choice: 'binary'" in capsys.readouterr().err
