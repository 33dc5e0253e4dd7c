"""Host lists: the resulting network, or the line of the error."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from loops import over

from subord.config.hosts import FILE_BYTES_MAX, network_of
from subord.config.load import changes, dotted, load, reload
from subord.config.resolve import ResolveError, Version
from subord.config.schema import Config
from subord.config.source import ConfigError

Answers = dict[str, list[str] | str]
CLUSTER: Answers = {
    **{f"n{number:02}": [f"10.0.0.{number}", f"fd00::{number}"] for number in range(1, 21)},
    **{f"r{rack}n{number}": [f"10.0.{rack}.{number}"] for rack in (1, 2) for number in (1, 2)},
    "six": ["fd00::6"],
    "both": ["fd00::77", "10.0.0.77"],
    "two": ["10.0.0.22", "10.0.0.21"],
    "again": ["10.0.0.1"],
    "self": ["127.0.1.1"],
    "busy": "temporary failure in name resolution",
}
UNKNOWN = "name or service not known"


def resolver(answers: Answers) -> Callable[[str, Version | None], tuple[str, ...]]:
    def resolve(name: str, version: Version | None) -> tuple[str, ...]:
        answer = answers.get(name, UNKNOWN)
        if isinstance(answer, str):
            raise ResolveError(answer, passing=answer.startswith("temporary"))
        fitting = tuple(each for each in answer if version is None or (":" in each) == (version == 6))
        if not fitting:
            raise ResolveError("no address associated with hostname", passing=False)
        return fitting

    return resolve


@pytest.fixture(autouse=True)
def _in_empty_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def listed(text: str | bytes) -> str:
    Path("nodes.list").write_bytes(text if isinstance(text, bytes) else text.encode())
    return "nodes.list"


@over(
    ("text", "network"),
    [
        ("10.0.0.0/24", "10.0.0.0/24"),
        ("10.0.0.5\n10.0.0.1\n", "10.0.0.5,10.0.0.1"),
        ("10.0.0.1, 10.0.0.2 10.0.0.4\r\n10.0.0.9\r\n", "10.0.0.1-10.0.0.2,10.0.0.4,10.0.0.9"),
        ("# the heads\n\n10.0.0.1 # first\n#10.0.0.2\n10.0.0.3#last", "10.0.0.1,10.0.0.3"),
        ("10.0.0.[1-3,7]\n10.0.5.10 - 20\n", "10.0.0.1-10.0.0.3,10.0.0.7,10.0.5.10-10.0.5.20"),
        ("fd00::1-fd00::ff", "fd00::1-fd00::ff"),
        ("n01", "10.0.0.1"),
        ("n[01-20]", "10.0.0.1-10.0.0.20"),
        ("n[03,01]\nn02", "10.0.0.3,10.0.0.1-10.0.0.2"),
        ("r[1-2]n[1-2]", "10.0.1.1-10.0.1.2,10.0.2.1-10.0.2.2"),
        ("n01\n10.0.7.0/24\nn02", "10.0.0.1,10.0.7.1-10.0.7.254,10.0.0.2"),
        ("n01\nfd00::99", "fd00::1,fd00::99"),  # the first address decides, also after names
        ("both\nn01", "10.0.0.77,10.0.0.1"),  # names only: IPv4 if the first has it
        ("six\nn01", "fd00::6,fd00::1"),
        (b"\xef\xbb\xbf10.0.0.1", "10.0.0.1"),
    ],
)
def test_the_order_of_the_file_is_the_order_of_positions(text: str | bytes, network: str) -> None:
    assert network_of(listed(text), resolver(CLUSTER))[0].text == network


@over(
    ("text", "complaint"),
    [
        ("", "nodes.list: the host list is empty; write at least one address or name"),
        ("# none\n\n", "nodes.list: the host list is empty"),
        ("10.0.0.1\n\n10.0.0.300", ":3: '10.0.0.300' is no IP address: write numbers, no name and no scope"),
        ("10.0.0.1\n10.0.0.9-10.0.0.4", ":2: the range '10.0.0.9-10.0.0.4' is reversed"),
        ("10.0.0.1/24", ":1: '10.0.0.1/24' has host bits set: write 10.0.0.0/24"),
        ("10.0.0.1 10.0.0.2\n10.0.0.3\n10.0.0.4 10.0.0.2\n10.0.0.1", ':3: 10.0.0.2 is named more than once'),
        ("10.0.0.1\nn[02-03]\n10.0.0.0/24", ":3: 10.0.0.1 is named more than once"),
        ("n01\nagain", ':2: 10.0.0.1 is named more than once: name it once; seen at "again"'),
        ("10.0.0.1\nfd00::1\n10.0.0.2", ":2: the network mixes families (10.0.0.1 and fd00::1)"),
        ("10.0.0.1\nn[1-3", ":2: a bracket lacks its other half or is nested"),
        ("10.0.0.1\nn[3-1]", ":2: the range 3-1 in n[3-1] is reversed"),
        ("10.0.0.1\n\nno such-", ":3: such- is neither an address nor a host name"),
        ("10.0.7", ":1: '10.0.7' is no IP address"),
        ("10.0.0.1\nunknown", f":2: unknown has no address: {UNKNOWN}; correct the name, or write its address"),
        ("n[01-22]", f":1: n21 has no address: {UNKNOWN}"),
        ("unknown\nn01", f":1: unknown has no address: {UNKNOWN}"),
        ("10.0.0.1\nsix", ":2: six has no address: no address associated with hostname"),
        ("10.0.0.1\ntwo", ":2: two has 2 addresses (10.0.0.21, 10.0.0.22); write the address that the node uses"),
        ("10.0.0.1\nself", ":2: self resolves to 127.0.1.1, which other nodes cannot reach; correct /etc/hosts, or"),
        ("a[1-100]b[1-101]", ":1: a[1-100]b[1-101] stands for more than 10000 names"),
        ("a[1-9999]\nb[1-2]", ":2: more than 10000 names or items: write ranges"),
        ("10.0.0.1 " * 10_001, ":1: more than 10000 names or items"),
        (b"10.0.0.1\nn\xff", "nodes.list:2: not UTF-8 text; save the file in UTF-8"),
        (b"#" * (FILE_BYTES_MAX + 1), "nodes.list: longer than 4194304 bytes; this is not a subord host list"),
        ("10.0.0.1\n\x1b[2J", ":2: "),
    ])  # fmt: skip
def test_an_error_names_the_line_of_the_list(text: str | bytes, complaint: str) -> None:
    with pytest.raises(ConfigError) as caught:
        network_of(listed(text), resolver(CLUSTER))
    assert complaint in str(caught.value)
    assert str(caught.value).isprintable()
    assert not caught.value.passing


def test_each_name_is_looked_up_once_and_none_after_a_failure() -> None:
    asked: list[str] = []
    answers = resolver(CLUSTER)

    def resolve(name: str, version: Version | None) -> tuple[str, ...]:
        asked.append(name)
        return answers(name, version)

    network_of(listed("10.0.9.9\nn[01-20]"), resolve)
    assert sorted(asked) == [f"n{number:02}" for number in range(1, 21)]
    asked.clear()
    with pytest.raises(ConfigError, match="unknown1 has no address"):
        network_of(listed("10.0.9.9\nunknown[1-5000]"), resolve)
    assert len(asked) < 5000


def test_a_resolver_failure_is_temporary() -> None:
    with pytest.raises(ConfigError, match="busy has no address: temporary failure in name resolution") as caught:
        network_of(listed("10.0.0.1\nbusy"), resolver(CLUSTER))
    assert caught.value.passing


# -- as a part of the configuration ---------------------------------------------------------------------------------


def configured(directory: str = "") -> str:
    path = Path(directory) / "subord.toml"
    path.write_text('[cluster]\nnetwork_file = "nodes.list"\n')
    return str(path)


def configured_with(text: str) -> Config:
    listed(text)
    return load(configured(), resolve=resolver(CLUSTER))


def test_a_configuration_with_a_host_list() -> None:
    config = configured_with("n[01-03]\n")
    assert config.cluster.network.text == "10.0.0.1-10.0.0.3"
    assert dotted(config)["cluster.network_file"] == config.network_file == "nodes.list"


def test_a_relative_path_begins_at_the_configuration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("etc").mkdir()
    Path("etc/nodes.list").write_text("10.0.0.1")
    path = configured("etc")
    assert load(path).cluster.network.size == 1
    Path("etc/nodes.list").write_text("10.0.0.300")
    with pytest.raises(ConfigError, match=r"^etc/nodes\.list:1: "):
        load(path)
    listed("10.0.0.[1-2]")  # in the current directory, not in etc
    assert load(None, ["cluster.network_file=nodes.list"]).cluster.network.size == 2
    monkeypatch.chdir("etc")
    assert load(None, [f"cluster.network_file={tmp_path / 'nodes.list'}"]).cluster.network.size == 2


@pytest.mark.parametrize(
    ("assignments", "complaint"),
    [
        (["cluster.network_file=missing"], "missing: cannot read the host list: No such file or directory; correct"),
        (["cluster.network_file=."], "cannot read the host list: Is a directory; correct cluster.network_file"),
        (
            ["cluster.network_file=a", "cluster.network=10.0.0.1"],
            "--set cluster.network_file=a: network_file and network are both given; remove one of them",
        ),
    ],
)
def test_a_list_that_cannot_be_used(assignments: list[str], complaint: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load(None, assignments)
    assert complaint in str(caught.value)


def test_too_many_positions_are_refused_with_the_key() -> None:
    listed("fd00::/48")
    with pytest.raises(ConfigError, match=r"subord.toml:2: network_file has more than 2\^64 addresses"):
        load(configured())


@pytest.mark.parametrize(
    ("before", "after", "changed"),
    [
        ("10.0.0.1\n10.0.0.2", "# racks\n10.0.0.[1-2]  # both", ()),
        ("10.0.0.1\n10.0.0.2", "10.0.0.1-10.0.0.2\n", ()),
        ("10.0.0.1\n10.0.0.2", "10.0.0.2\n10.0.0.1", ("cluster.network",)),
        ("10.0.0.1\n10.0.0.2", "10.0.0.1\n10.0.0.2\n10.0.0.3", ("cluster.network",)),
    ],
)
def test_only_another_network_counts_as_a_change(before: str, after: str, changed: tuple[str, ...]) -> None:
    old = configured_with(before)
    listed(after)
    assert changes(old, reload(old)) == (changed, ())


def test_the_same_network_from_another_place_is_no_other_network() -> None:
    old = configured_with("10.0.0.[1-2]")
    Path("subord.toml").write_text('[cluster]\nnetwork = ["10.0.0.1", "10.0.0.2"]\n')
    assert changes(old, reload(old)) == (("cluster.network_file",), ())
