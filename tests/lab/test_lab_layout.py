"""Addresses, positions, and what is refused before anything is started."""

import pytest
from loops import over

from .lab_helpers import netlab, refused

pytestmark = pytest.mark.lab


def test_dense_begins_at_position_one_and_crosses_octets():
    layout = netlab("topology.layout")
    found = layout.layout("dense", 600, "10.0.0.0/16").addresses
    assert found[0] == "10.0.0.1"
    assert found[254:257] == ("10.0.0.255", "10.0.1.0", "10.0.1.1")
    assert [netlab("topology.addresses").position_of(address, "10.0.0.0/16") for address in found] == list(
        range(1, 601)
    )


def test_file_is_read_in_address_order(tmp_path):
    path = tmp_path / "layout"
    path.write_text("10.0.1.7  # the last\n\n10.0.0.9\n10.0.0.10\n")
    layout = netlab("topology.layout").layout
    assert layout(str(path), None, "10.0.0.0/16").addresses == ("10.0.0.9", "10.0.0.10", "10.0.1.7")
    assert layout(str(path), 2, "10.0.0.0/16").addresses == ("10.0.0.9", "10.0.1.7")


def test_hardware_address_holds_the_address():
    assert netlab("topology.addresses").hardware_address("10.0.1.2").hex(":") == "02:00:0a:00:01:02"


@over(
    ("lines", "sentence"),
    [
        ("10.0.0.300", "line 1: `10.0.0.300` is no IP address"),
        ("10.0.0.1\n10.0.0.1", "line 2: 10.0.0.1 is in line 1 already"),
        ("11.0.0.1", "11.0.0.1 is no host address of 10.0.0.0/16"),
        ("10.0.255.255", "10.0.255.255 is no host address"),
        ("", "0 nodes"),
    ],
)
def test_refused_layouts(tmp_path, lines, sentence):
    path = tmp_path / "layout"
    path.write_text(lines)
    with pytest.raises(netlab("errors").LabError, match="(?s).*" + sentence.replace(".", r"\.")):
        netlab("topology.layout").layout(str(path), None, "10.0.0.0/16")


@over(
    ("arguments", "sentence"),
    [
        (["up", "--nodes", "1024"], "1024 nodes: a lab has 1 to 1023"),
        (["up", "--nodes", "3", "--network", "10.0.0.0/33"], "--network 10.0.0.0/33"),
        (["up", "--nodes", "300", "--network", "10.0.0.0/24"], "needs 300 positions, the network has 254"),
        (["up", "--nodes", "3", "--name", "a/b"], "--name a/b"),
        (["up"], "How many nodes"),
        (["up", "--nodes", "3", "--layout", "nowhere"], "--layout nowhere: No such file"),
        (["up", "--nodes", "3", "--daemon", "nowhere.py", "--name", "absent-lab"], "nowhere.py does not exist"),
        (["exec", "--name", "absent-lab", "7", "--", "true"], "No lab named absent-lab is running"),
        (["down", "--name", "absent-lab"], "No lab named absent-lab is running"),
    ],
)
def test_errors_are_one_plain_line(arguments, sentence):
    result = refused(*arguments)
    assert result.returncode == 1
    assert sentence in result.stderr
    assert len(result.stderr.splitlines()) == 1
