"""Groups in files and from commands, as ClusterShell reads them."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
import yaml
from ClusterShell.NodeSet import NodeSet
from ClusterShell.NodeUtils import GroupResolverConfig
from hypothesis import given
from hypothesis import strategies as st
from loops import over

from subord.client.folding import folded
from subord.client.node_sets import groups as module
from subord.client.node_sets.algebra import NodeSetError, steps_of, value
from subord.client.node_sets.groups import Failure, Groups, Listed, groups_in, run
from subord.client.node_sets.yaml_groups import NotReadError, sources_in

FILE = "[ -f $CFGDIR/groups ] && f=$CFGDIR/groups || f=$CFGDIR/groups.d/local.cfg"
CONF = f"""\
[Main]
default: local
confdir: $CFGDIR/groups.conf.d "$CFGDIR/more conf"
autodir: $CFGDIR/groups.d

[local]
map: {FILE}; sed -n 's/^$GROUP:\\(.*\\)/\\1/p' $f
all: {FILE}; sed -n 's/^all:\\(.*\\)/\\1/p' $f
list: {FILE}; sed -n 's/^\\([0-9A-Za-z_-]*\\):.*/\\1/p' $f

[idle,busy]
map: echo $SOURCE-$GROUP[1-2]; echo $SOURCE-$GROUP-9
list: printf 'one\\ntwo\\n'

[once]
mapall: printf 'x: n[1-2]\\ny: n3\\nx: n4\\n'
"""
LOCAL = """\
# the racks
all: @rack1,@rack2
rack1: node[1-4]
rack2: node[5-8]
rack2: node20

odd: @all!node[2-8/2]
other: @idle:one
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The configuration that ClusterShell installs, and some more."""
    top = tmp_path / "clustershell"
    (top / "groups.d").mkdir(parents=True)
    (top / "groups.conf.d").mkdir()
    (top / "more conf").mkdir()
    (top / "groups.conf").write_text(CONF)
    (top / "groups.d" / "local.cfg").write_text(LOCAL)
    (top / "groups.conf.d" / "a.conf").write_text("[slurm]\nmap: cat jobs; echo s-$GROUP\nlist: cat jobs\n")
    (top / "groups.conf.d" / "jobs").write_text("j1 j2\n")
    (top / "more conf" / "b.conf").write_text("[more]\nmap: echo more1\n")
    return top


def found(folder: Path) -> Groups:
    return Groups(str(folder.parent / "groups"), str(folder), {})


def nodes(text: str, groups: Groups) -> str:
    return folded(value(steps_of(text, groups), {}))


SAME = [
    "@rack1",
    "@rack[1-2]",
    "@odd",
    "@*",
    "@local:*",
    "@local:rack1!node2",
    "@idle:one",
    "@busy:[1-2]",
    "@once:x",
    "@once:*",
    "@idle:*",
    "@slurm:7",
    "@other",
    "@more:any",
]


@over("text", SAME)
def test_clustershell_reads_the_same_groups(folder: Path, text: str) -> None:
    theirs = NodeSet(text, resolver=GroupResolverConfig([str(folder / "groups.conf")]))
    got = value(steps_of(text, found(folder)), {})
    assert got == set(theirs)


def test_a_file_of_subord_is_the_default(folder: Path) -> None:
    assert nodes("@rack2", found(folder)) == "node[5-8,20]"
    (folder.parent / "groups").write_text("rack2: node99\nall: @rack2,@local:rack1\n")
    assert nodes("@rack2", found(folder)) == "node99"
    assert nodes("@subord:*", found(folder)) == "node[1-4,99]"
    assert nodes("@local:rack2", found(folder)) == "node[5-8,20]"


def test_files_without_groups_conf(folder: Path) -> None:
    (folder / "groups.conf").unlink()
    (folder / "groups.d" / "disks.cfg").write_text("ssd: node[1-2]\n")
    assert nodes("@rack2", found(folder)) == "node[5-8,20]"
    assert nodes("@disks:*", found(folder)) == "node[1-2]"
    assert sorted(found(folder).sources()) == ["disks", "local"]
    (folder / "groups").write_text("rack2: old1\n")
    assert nodes("@rack2", found(folder)) == "old1"


def test_without_any_groups(tmp_path: Path) -> None:
    groups = Groups(str(tmp_path / "groups"), str(tmp_path / "none"), {"others": Listed(lambda: {"x": "n1"})})
    assert nodes("@others:x", groups) == "n1"
    with pytest.raises(NodeSetError, match=r"there are no groups here: write .*/groups, or .*/none/groups.conf"):
        nodes("@rack1", groups)


@over(
    ("text", "complaint"),
    [
        ("@rack9", "there is no group @local:rack9"),
        ("@once:z", "there is no group @once:z"),
        ("@gone:x", "there is no source 'gone' of groups, only: busy, idle, local, more, once, slurm"),
        ("@more:*", "the source more has no command `list`"),
    ],
)
def test_what_is_not_there(folder: Path, text: str, complaint: str) -> None:
    with pytest.raises(NodeSetError) as caught:
        nodes(text, found(folder))
    assert complaint in str(caught.value)
    assert not caught.value.passing


YAML = """\
---
# of the manual
racks:
    rack1: 'node[1-4]'
    rack2: node[5-8]   # plain
    both: "@rack[1-2]"
    "all": '@both'

    rack5:
        - 'node[20-21]'  # some comment about node[1-2]
        - node22
    rack6: ['n1', "n[2-3]", n4]
    none:
    empty: []
cpu:
  big: '@racks:rack1!node3'
  v6: fd00::1
  v4: 10.0.0.[1-2]
  items:
  - x1
  - x2
"""


def test_yaml_is_read_as_clustershell_reads_it(folder: Path) -> None:
    (folder / "groups.d" / "cluster.yaml").write_text(YAML)
    assert sources_in(YAML).keys() == {"racks", "cpu"}
    theirs = GroupResolverConfig([str(folder / "groups.conf")])
    ours = found(folder)
    for text in (
        "@racks:rack[1-2]",
        "@cpu:big",
        "@racks:both",
        "@racks:*",
        "@racks:rack5",
        "@racks:rack6",
        "@racks:none",
        "@cpu:*",
    ):
        assert value(steps_of(text, ours), {}) == set(NodeSet(text, resolver=theirs)), text


@over(
    ("line", "is_read"),
    [
        ("  b: n2", True),
        ("  b: 'it''s'", False),
        ('  b: "n\\x31"', False),
        ("  b: &anchor n1", False),
        ("  b: *anchor", False),
        ("  b: !!str n1", False),
        ("  b: |", False),
        ("  b: >-", False),
        ("  b: {c: d}", False),
        ("  b: n1 n2", False),
        ("  b: @rack1", False),
        ("  b: 12", False),
        ("  b: 1:30", False),
        ("  b: yes", False),
        ("  b: ~", False),
        ("  b: [n[1-2], n3]", False),
        ("  b: [a, [b]]", False),
        ("  b: [12]", False),
        ("  b: n1: n2", False),
        ("  b: n1 #x", True),
        ("  b: 'n1'x", False),
        ("  a: n2", False),  # twice
        ("  1: n2", False),
        ("   b: n2", False),  # another indent
        ("\tb: n2", False),
        ("  <<: n2", False),
        ("- n2", False),
        ("  - n2", False),  # a has nodes already
        ("b: n2", False),
        ("...", False),
        ("--- ", False),
        ("  b", False),
    ],
)
def test_other_yaml_is_refused_with_its_line(line: str, is_read: bool) -> None:
    text = f"s:\n  a: n1\n{line}\n"
    if is_read:
        assert sources_in(text)["s"]["b"] == yaml.safe_load(text)["s"]["b"]
    else:
        with pytest.raises(NotReadError, match=r"^3: .* is not read: write"):
            sources_in(text)


pieces = st.sampled_from(
    [*"ab1: -#'\"[],&*!|>{}\\@~.%", "\n", "\n  ", "\n  - ", ": ", "s:", "yes", "1.5", "n[1-2]", " #", "- ", "0x1"]
)


@pytest.mark.slow
@given(st.lists(pieces, max_size=14).map("".join))
def test_what_is_understood_means_the_same_in_yaml(text: str) -> None:
    text = f"s:\n  a: n1\n  b{text}\n"
    try:
        ours = sources_in(text)
    except NotReadError:
        return
    theirs = yaml.safe_load(text)
    for source, groups in ours.items():
        for name, nodes in groups.items():
            value = theirs[source][name]
            assert nodes == (",".join(filter(None, value)) if isinstance(value, list) else value or ""), text
        assert (theirs[source] or {}).keys() == groups.keys()


def test_a_file_that_is_not_read_is_named_when_its_source_is_missing(folder: Path) -> None:
    (folder / "groups.d" / "cluster.yaml").write_text("racks:\n  one: |\n    n1\n")
    assert nodes("@rack1", found(folder)) == "node[1-4]"
    with pytest.raises(NodeSetError, match=r"no source 'racks' .*cluster.yaml:2: 'one: \|' is not read: write"):
        nodes("@racks:one", found(folder))


@over(
    ("conf", "complaint"),
    [
        ("no section\n", "groups.conf: File contains no section headers"),
        ("[a]\nmap: x\n[a]\n", "groups.conf: While reading from"),
        ("[Main]\nconfdir: 'x\n", "groups.conf: 'x: No closing quotation"),
    ],
)
def test_a_wrong_configuration_is_named(folder: Path, conf: str, complaint: str) -> None:
    (folder / "groups.conf").write_text(conf)
    with pytest.raises(NodeSetError) as caught:
        nodes("@a", found(folder))
    assert complaint in str(caught.value)
    assert "\n" not in str(caught.value)
    (folder.parent / "groups").write_text("a: n1\n")
    assert nodes("@a", found(folder)) == "n1"
    (folder.parent / "groups").unlink()


@over(
    ("text", "expected"),
    [
        ("a: n1\n\n# x\nb : n[2-3] # y\r\na: n9\n", {"a": "n1,n9", "b": "n[2-3]"}),
        ("a:\n", {"a": ""}),
        ("v6: fd00::1,@s:b\n", {"v6": "fd00::1,@s:b"}),
        ("a: n1\nnodes\n", Failure("f:2: 'nodes' is no group: write rack1: node[1-4]")),
        ("a b: n1\n", Failure("f:1: 'a b: n1' is no group: write rack1: node[1-4]")),
        ("$(x): n1\n", Failure("f:1: '$(x): n1' is no group: write rack1: node[1-4]")),
    ],
)
def test_the_lines_of_a_file(text: str, expected: object) -> None:
    assert groups_in(text, "f") == expected


# -- commands -------------------------------------------------------------------------------------------------------


def test_a_command_that_fails_is_a_failure_to_try_again(folder: Path) -> None:
    (folder / "groups.conf").write_text("[a]\nmap: exit 3\n")
    with pytest.raises(NodeSetError, match="'exit 3' ended with exit code 3") as caught:
        nodes("@a:x", found(folder))
    assert caught.value.passing


@pytest.mark.slow
def test_a_command_has_a_time_limit(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(module, "COMMAND_S", 0.3)
    began = time.monotonic()
    for command in ("sleep 60", "sleep 60 & sleep 60", "exec >&-; sleep 60", "sleep 60 &"):
        assert run(command, str(tmp_path)) == Failure(f"{command!r} took longer than 0.3 s", passing=True)
    assert time.monotonic() - began < 30
    mark = tmp_path / "mark"
    run(f"(sleep 2; touch {mark}) & sleep 60", str(tmp_path))
    time.sleep(2.2)
    assert not mark.exists()  # what the command started has ended with it


def test_the_output_of_a_command_is_bounded(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(module, "OUTPUT_BYTES_MAX", 1000)
    assert run("yes", str(tmp_path)) == Failure("'yes' wrote more than 1000 bytes", passing=True)
    monkeypatch.setattr(module, "COMMAND_S", 30.0)
    assert "wrote more than 1000 bytes" in str(run("head -c 2000 /dev/zero; sleep 60", str(tmp_path)))
    assert run("printf 'a%.0s' $(seq 1000)", str(tmp_path)) == "a" * 1000


def test_a_command_has_no_input_and_its_own_directory(tmp_path: Path) -> None:
    assert run("cat; pwd", str(tmp_path)) == str(tmp_path)
    assert run("x", str(tmp_path / "gone")) == Failure("cannot run 'x': No such file or directory", passing=True)


def test_a_group_is_asked_for_once(folder: Path) -> None:
    (folder / "groups.conf").write_text("[a]\nmap: echo x >> asked; echo n1\n")
    assert nodes("@a:x,@a:x!@a:x", found(folder)) == ""
    assert (folder / "asked").read_text() == "x\n"


def test_a_shell_reads_no_name_of_a_group(folder: Path) -> None:
    (folder / "groups.conf").write_text("[a]\nmap: echo n1; : \"$GROUP\" '$GROUP' $GROUP\n")
    for name in (
        "x;touch${IFS}mark",
        "`touch${IFS}mark`",
        "$(touch${IFS}mark)",
        "x'touch'",
        'x"y',
        "a/b",
        "-x",
        "a\\b",
    ):
        with pytest.raises(NodeSetError, match=r"names no group|lacks its"):
            nodes(f"@a:{name}", found(folder))
    assert not (folder / "mark").exists()


def test_a_list_of_a_command_has_a_bound(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "GROUPS_MAX", 1)
    with pytest.raises(NodeSetError, match="the source idle lists more than 1 groups: give it a command `all`"):
        nodes("@idle:*", found(folder))
