"""The rules for the bridge: their text, and whether this kernel takes them."""

import pytest
from loops import over

from .lab_helpers import netlab

HEAD = "table bridge lab\ndelete table bridge lab\ntable bridge lab {\n"
CHAIN = "chain forward {\ntype filter hook forward priority 0; policy accept;\n"


def test_fair_weather_takes_every_rule_away():
    filters = netlab("topology.filters")
    assert filters.rules(filters.Faults()) == f"{HEAD}{CHAIN}}}\n}}\n"


@over(
    ("faults", "sets", "lines"),
    [
        (
            {"blocks": [(("n1", "n2"), ("n3",), "all")]},
            ["from1 n1,n2", "to1 n3"],
            ["iifname @from1 oifname @to1 drop"],
        ),
        (
            {"blocks": [(("n1",), ("n3",), "udp"), ((), ("n3",), "all"), (("n3",), ("n1",), "tcp")]},
            ["from1 n1", "to1 n3", "from3 n3", "to3 n1"],
            [
                "iifname @from1 oifname @to1 meta l4proto udp drop",
                "iifname @from3 oifname @to3 meta l4proto tcp drop",
            ],
        ),
        (
            {"sides": (("n1",), ("n2", "n3"), ())},
            ["side1 n1", "side2 n2,n3"],
            ["iifname @side1 oifname != @side1 drop", "iifname @side2 oifname != @side2 drop"],
        ),
        ({"loss": 0.25}, [], ["meta l4proto udp numgen random mod 1000000 < 250000 drop"]),
        ({"loss": 1.0}, [], ["meta l4proto udp drop"]),
    ],
)
def test_rules(faults, sets, lines):
    filters = netlab("topology.filters")
    blocks = tuple(filters.Block(*each) for each in faults.pop("blocks", ()))
    text = filters.rules(filters.Faults(blocks=blocks, **faults))
    named = [each.split(" ") for each in sets]
    quoted = [(name, ", ".join(f'"{port}"' for port in ports.split(","))) for name, ports in named]
    declared = "".join(f"set {name} {{\ntype ifname\nelements = {{ {ports} }}\n}}\n" for name, ports in quoted)
    assert text == f"{HEAD}{declared}{CHAIN}" + "".join(f"{line}\n" for line in lines) + "}\n}\n"


def test_rules_grow_with_the_nodes_and_not_with_their_pairs():
    filters = netlab("topology.filters")
    ports = tuple(f"n{position}" for position in range(1, 1001))
    text = filters.rules(filters.Faults((filters.Block(ports, ports),), (ports[:500], ports[500:]), 0.1))
    assert len(text) < 40_000


def test_without_nft_one_sentence_names_the_package(monkeypatch, tmp_path):
    filters = netlab("topology.filters")
    monkeypatch.setattr(filters, "WHERE_FOUND", str(tmp_path))
    assert "apt-get install nftables" in filters.obstacle(rootless=False)
    with pytest.raises(netlab("errors").LabError, match="nftables"):
        filters.load("")


@pytest.mark.lab
@pytest.mark.parametrize("rootless", [False, True])
def test_the_kernel_takes_them(nft, rootless):
    assert netlab("topology.filters").obstacle(rootless=rootless) is None


@pytest.mark.lab
def test_what_the_kernel_refuses_is_told(nft, monkeypatch):
    filters = netlab("topology.filters")
    monkeypatch.setattr(filters, "rules", lambda _faults: "table bridge lab {\nnonsense\n}\n")
    assert "cannot filter at a bridge" in filters.obstacle(rootless=False)
