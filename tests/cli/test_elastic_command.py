"""`subord elastic set` and `off`: what is published, what is refused, and the exit codes."""

from __future__ import annotations

import json
from collections.abc import Iterator

import msgspec
import pytest
from loops import over

from subord.api.http.server import Call, Response
from subord.client import exit_codes
from subord.client.orders import publishing
from subord.runtime.elastic.state import MANAGES, State
from subord.services.elastic.options import Options
from subord.services.elastic.plan import Mount, Plan, User
from subord.services.serving import signed_handlers
from tests.api.elastic_nodes import PLAN
from tests.api.served_node import fake_daemon, fixed_answer
from tests.cli.elastic_stage import ElasticStage, Said
from tests.cli.other_operators import publish_after, publish_before, sign_as
from tests.cli.test_json import fitting

FIRST = ("set", "--manager", "10.0.0.1", "-m", "20")
ANN = "ann:1001:users:100:/users/ann"


class Stage(ElasticStage):
    """With the options of the plan."""

    @property
    def options(self) -> Options:
        assert self.plan is not None
        assert self.plan.options is not None
        return self.plan.options


@pytest.fixture
def stage() -> Iterator[Stage]:
    stage = Stage()
    with fake_daemon(stage.node) as stage.path:
        yield stage


# -- set ------------------------------------------------------------------------------------------------------------


def test_the_first_plan_has_the_defaults_of_the_text(stage: Stage, capsys: Said) -> None:
    code, lines, err = stage.type(capsys, *FIRST)
    assert (code, err) == (exit_codes.OK, "")
    assert stage.plan == PLAN
    assert lines[0].startswith("version 1 published by ann at 20")
    assert lines[0].endswith(" UTC: 10.0.0.1 has the queue")
    assert lines[1:] == [
        "option                now",
        "--manager             10.0.0.1",
        "--max_nodes           20",
        "--min_nodes           1",
        "--add_nodes_per_iter  1",
        "--interval            60 s",
        "--job_wait_time       900 s",
        "--kill_after          45 min",
        "--stabilization_time  300 s",
        "--lookback_window     180 min",
        "--kill-cluster        no",
        "--idle                off",
        "--lasts               off",
        "--queue               all.q",
        "--decides             subord",
        "--prefix              node",
        "--kinds               all",
        "--user                none",
        "--mount               none",
        "--hosts               yes",
        "--trial               no",
    ]


def test_what_is_not_given_stays_and_what_changes_is_shown(stage: Stage, capsys: Said) -> None:
    assert stage.type(capsys, *FIRST, "--user", ANN, "--idle", "10", "--trial", "-K")[0] == exit_codes.OK
    first = stage.plan
    code, lines, _ = stage.type(capsys, "set", "-w", "600", "--no-trial", "--mount", "/home")
    assert code == exit_codes.OK
    assert first is not None
    assert stage.plan == msgspec.structs.replace(
        first,
        options=msgspec.structs.replace(first.options, job_wait_time_s=600),
        mounts=(Mount(source="/home", target="/home"),),
        is_trial=False,
    )
    assert [line for line in lines if len(line.split()) > 2 and line.startswith("--")] == [
        "--interval            60 s",
        "--job_wait_time       600 s     900 s",
        "--kill_after          45 min",
        "--stabilization_time  300 s",
        "--lookback_window     180 min",
        "--idle                10 min",
        "--mount               /home     none",
        "--trial               no        yes",
    ]
    code, lines, _ = stage.type(capsys, "set", "--idle", "off", "--no-kill-cluster", "--user", "none")
    assert (stage.options.idle_min, stage.options.kill_cluster, stage.plan.users) == (None, False, ())


def test_the_same_again_says_so(stage: Stage, capsys: Said) -> None:
    stage.type(capsys, *FIRST)
    code, lines, _ = stage.type(capsys, *FIRST)
    assert (code, lines[-1]) == (exit_codes.OK, "nothing differs from version 1")


def test_other_users_of_the_same_names_are_a_change(stage: Stage, capsys: Said) -> None:
    stage.type(capsys, *FIRST, "--user", ANN)
    _, lines, _ = stage.type(capsys, "set", "--user", ANN.replace("1001", "1002"))
    assert "--user                ann       others of these names" in lines


def test_all_options_of_the_text_by_letter_and_by_name(stage: Stage, capsys: Said) -> None:
    letters = ["-m", "9", "-n", "2", "-a", "3", "-i", "30", "-w", "60", "-k", "50", "-s", "400", "-l", "60", "-K"]
    names = ["--max_nodes", "--min_nodes", "--add_nodes_per_iter", "--interval", "--job_wait_time", "--kill_after"]
    names += ["--stabilization_time", "--lookback_window"]
    long = [word for name, value in zip(names, letters[1:-1:2], strict=True) for word in (name, value)]
    wanted = Options(
        max_nodes=9,
        min_nodes=2,
        add_nodes_per_iter=3,
        interval_s=30,
        job_wait_time_s=60,
        kill_after_min=50,
        stabilization_time_s=400,
        lookback_window_min=60,
        kill_cluster=True,
    )
    for words in (letters, [*long, "--kill-cluster"], [*long, "-K", "--add_nodes_per_iteration", "3"]):
        assert stage.type(capsys, "set", "--manager", "10.0.0.1", *words)[0] == exit_codes.OK
        assert stage.options == wanted
        stage.node.tracker.membership.documents.drop(["elastic/plan"])


def test_what_an_added_node_gets(stage: Stage, capsys: Said) -> None:
    stage.has_queue(1, kinds=("small", "large"))
    users = ["--user", f"{ANN}:/bin/bash", "--user", "bob:1002:users:100:/users/bob"]
    mounts = ["--mount", "/home:ro", "--mount", "/srv/apps:/apps", "--mount", "/data:/data:ro"]
    more = ["--prefix", "worker-", "--kinds", "large", "--no-hosts", "--lasts", "300", "--queue", "long.q"]
    code, lines, _ = stage.type(capsys, *FIRST, *users, *mounts, *more)
    assert code == exit_codes.OK
    assert stage.plan == Plan(
        manager=1,
        options=Options(max_nodes=20, lasts_s=300, queue="long.q"),
        prefix="worker-",
        kinds=("large",),
        users=(
            User(name="ann", uid=1001, group="users", gid=100, home="/users/ann", shell="/bin/bash"),
            User(name="bob", uid=1002, group="users", gid=100, home="/users/bob"),
        ),
        mounts=(
            Mount(source="/home", target="/home", read_only=True),
            Mount(source="/srv/apps", target="/apps"),
            Mount(source="/data", target="/data", read_only=True),
        ),
        has_hosts=False,
    )
    assert "--mount               /home:ro, /srv/apps:/apps, /data:ro" in lines
    stage.type(capsys, "set", "--kinds", "all")
    assert stage.plan.kinds == ()


def test_another_prefix_leaves_the_nodes_of_the_one_before_in_the_cluster(stage: Stage, capsys: Said) -> None:
    """Their names stay in tables of hosts, and the supplier's list."""
    stage.type(capsys, *FIRST)
    for prefix, former in (("a-", ("node",)), ("b-", ("a-", "node")), ("node", ("b-", "a-")), ("node", ("b-", "a-"))):
        assert stage.type(capsys, "set", "--prefix", prefix)[0] == exit_codes.OK
        assert (stage.plan.prefix, stage.plan.former) == (prefix, former)
    stage.type(capsys, "set", "-m", "7")
    assert stage.plan.former == ("b-", "a-")
    stage.type(capsys, "off")
    assert stage.plan.prefixes == ("node", "b-", "a-")


def test_changed_users_and_mounts_are_said_to_be_for_nodes_that_serve_as_well(stage: Stage, capsys: Said) -> None:
    kept = "nodes that serve get these users and mounts as well, and keep those that they have until they are removed"
    for words, is_said in (
        ((*FIRST, "--user", ANN), False),
        (("set", "-m", "9"), False),
        (("set", "--user", "none"), True),
        (("set", "--mount", "/home"), True),
        (("set", "--mount", "/home"), False),
    ):
        _, lines, _ = stage.type(capsys, *words)
        assert (kept in lines) is is_said


def test_the_json_says_what_has_changed(stage: Stage, capsys: Said) -> None:
    _, lines, _ = stage.type(capsys, *FIRST, "--json")
    found = fitting("elastic-set", lines[0])
    assert (found["version"], found["batch"], found["manager"]) == (1, "gridengine", "10.0.0.1")
    assert {"name": "--max_nodes", "before": None, "now": "20"} in found["changed"]
    _, lines, _ = stage.type(capsys, "set", "-m", "30", "--json", "--force")
    found = fitting("elastic-set", lines[0])
    assert (found["batch"], found["changed"]) == (None, [{"name": "--max_nodes", "before": "20", "now": "30"}])


def test_a_dry_run_changes_nothing(stage: Stage, capsys: Said) -> None:
    code, lines, _ = stage.type(capsys, *FIRST, "--dry-run")
    assert (code, lines[0]) == (exit_codes.OK, "version 1 would be published by ann: 10.0.0.1 has the queue")
    code, lines, _ = stage.type(capsys, *FIRST, "--dry-run", "--json")
    assert fitting("elastic-set", lines[0])["time"] is None
    assert stage.plan is None


def test_the_manager_is_this_node_at_first_and_stays(stage: Stage, capsys: Said) -> None:
    stage.has_queue(7)
    stage.type(capsys, "set", "-m", "4")
    assert stage.plan is not None
    assert stage.plan.manager == 7
    stage.type(capsys, "set", "--manager", "10.0.0.1")
    stage.type(capsys, "set", "-n", "2")
    assert stage.plan.manager == 1
    assert [targets for _, targets, _ in stage.node.orders.given if targets] != []


def test_another_manager_does_not_know_the_nodes_of_the_one_before(stage: Stage, capsys: Said) -> None:
    stage.has_queue(4)
    stage.type(capsys, *FIRST)
    code, lines, _ = stage.type(capsys, "set", "--manager", "10.0.0.4")
    assert code == exit_codes.OK
    assert "--manager             10.0.0.4  10.0.0.1" in lines
    assert lines[-1] == "nodes that 10.0.0.1 has added stay: 10.0.0.4 does not know them, and does not remove them"


@pytest.mark.slow
@over(
    ("typed", "complaint"),
    [
        (["set"], "--max_nodes (-m) is missing"),
        (["set", "-m", "4", "-n", "5"], "set --min_nodes (5) and --max_nodes (4)"),
        (["set", "-m", "4", "-n", "0"], "at least 1 node"),
        (["set", "-m", "10001"], "at most 10000"),
        (["set", "-m", "4", "-i", "301"], "--interval is 5 to 300 seconds, not 301"),
        (["set", "-m", "4", "-i", "4"], "--interval is 5 to 300 seconds, not 4"),
        (["set", "-m", "4", "-s", "299"], "--stabilization_time is at least 300 seconds, not 299"),
        (["set", "-m", "4", "-k", "60"], "--kill_after is a minute of an hour, 0 to 59, not 60"),
        (["set", "-m", "4", "-a", "0"], "--add_nodes_per_iter is at least 1"),
        (["set", "-m", "4", "-l", "0"], "--lookback_window is at least 1 minute"),
        (["set", "-m", "4", "--idle", "0"], "--idle is at least 1 minute"),
        (["set", "-m", "4", "--lasts", "0"], "--lasts is at least 1 second"),
        (["set", "-m", "4", "--queue", "a b"], "--queue 'a b' is no name"),
        (["set", "-m", "4", "--queue", ""], "--queue '' is no name"),
        (["set", "-m", "4", "--prefix", "Node"], "--prefix 'Node' is no name: it is of small letters, digits and -"),
        (["set", "-m", "4", "--prefix", "node1"], "with a letter first and no digit last, and not too long"),
        (["set", "-m", "4", "--prefix", "n\x1b"], "is no name"),
        (["set", "-m", "4", "--kinds", "Big"], "--kinds 'Big' is no name"),
        (["set", "-m", "4", "--kinds", ""], "--kinds '' is no name"),
        (["set", "-m", "4", "--kinds", "a,a"], "--kinds a is given twice"),
        (["set", "-m", "4", "--kinds", ",".join(f"k{n}" for n in range(17))], "at most 16"),
        (["set", "-m", "4", "--user", "ann"], "has 1 fields: it is NAME:UID:GROUP:GID:HOME[:SHELL], such as"),
        (["set", "-m", "4", "--user", "ann:x:users:100:/users/ann"], "the uid is a number from 1 to 65533"),
        (["set", "-m", "4", "--user", "ann:0:users:100:/users/ann"], "the uid is a number from 1 to 65533"),
        (["set", "-m", "4", "--user", "ann:1:users:65534:/users/ann"], "the gid is a number from 1 to 65533"),
        (["set", "-m", "4", "--user", "Ann:1:users:100:/users/ann"], "the name is at most 32 small letters"),
        (["set", "-m", "4", "--user", "ann:1:users:100:home"], "the home is a whole path"),
        (["set", "-m", "4", "--user", "ann:1:users:100:/users/../etc"], "a path has no `..` in it"),
        (["set", "-m", "4", "--user", "ann:1:users:100:/"], "the home of ann, /, is no plain path"),
        (["set", "-m", "4", "--mount", "/etc/x"], "nothing may be mounted on /etc/x, which is the system's own"),
        (["set", "-m", "4", "--user", f"{ANN}:sh"], "the shell is a whole path"),
        (["set", "-m", "4", "--user", ANN, "--user", ANN], "the plan has the user ann twice"),
        (
            ["set", "-m", "4", "--user", ANN, "--user", "bob:1001:u:9:/b"],
            "the plan gives the id 1001 to the users ann and bob",
        ),
        (
            ["set", "-m", "4", "--user", ANN, "--user", "bob:2:users:9:/b"],
            "the plan has the group users with the ids 100 and 9",
        ),
        (
            ["set", "-m", "4", "--user", ANN, "--user", "bob:2:u:100:/b"],
            "the plan gives the id 100 to the groups users and u",
        ),
        (["set", "-m", "4", "--user", ANN, "--user", "none"], "--user none stands alone"),
        (["set", "-m", "4", "--mount", "home"], "the source is a whole path"),
        (["set", "-m", "4", "--mount", "/a:/b:/c"], "is no mount: it is SOURCE[:TARGET][:ro]"),
        (["set", "-m", "4", "--mount", "/a:rw"], "the target is a whole path"),
        (["set", "-m", "4", "--mount", "/a:/"], "the target is the root of the node"),
        (["set", "-m", "4", "--mount", "/a", "--mount", "/b:/a"], "the plan mounts two directories on /a"),
        (["set", "-m", "4", *(w for n in range(33) for w in ("--mount", f"/m{n}"))], "given 33 times: at most 32"),
    ],
)
def test_wrong_options_change_nothing(typed: list[str], complaint: str, capsys: Said) -> None:
    stage = Stage()
    stage.has_queue(7)
    with fake_daemon(stage.node) as stage.path:
        code, lines, err = stage.type(capsys, *typed)
    assert (code, lines, stage.plan) == (exit_codes.USAGE, [], None), err
    assert complaint in err
    assert err.endswith("; nothing was changed\n")
    assert len(err.splitlines()) == 1
    assert stage.node.orders.given == [], "no node is asked"


@over(
    ("typed", "complaint"),
    [
        (["set", "-m", "many"], "must be a whole number"),
        (["set", "-m", "-4"], "argument -m"),
        (["set", "--max-nodes", "4"], "unrecognized arguments"),
        (["set", "-m", "4", "--idle", "never"], "must be a whole number"),
        (["set", "-m", "4", "-d"], "unrecognized arguments: -d"),
        (["status", "10.0.0.4", "--all"], "give NODES or --all, not both"),
        (["why", "10.0.0.4"], "unrecognized arguments"),
        (["grow"], "invalid choice"),
    ],
)
def test_wrong_words(typed: list[str], complaint: str, capsys: Said) -> None:
    stage = Stage()
    with fake_daemon(stage.node) as stage.path:
        code, lines, err = stage.type(capsys, *typed)
    assert (code, lines) == (exit_codes.USAGE, []), err
    assert complaint in err
    assert len(err.splitlines()) == 1


def test_a_plan_that_is_too_long(stage: Stage, capsys: Said) -> None:
    home = "/users/" + 150 * "h"
    users = [word for n in range(1, 65) for word in ("--user", f"user{n}:{n}:users:100:{home}{n}")]
    code, _, err = stage.type(capsys, *FIRST, *users)
    assert (code, stage.plan) == (exit_codes.USAGE, None)
    assert "at most 8192 have room: give fewer users or mounts; nothing was changed" in err


# -- the queue's node -----------------------------------------------------------------------------------------------


@over("node", ["11.0.0.1", "nowhere"])
def test_an_unknown_node(node: str, capsys: Said) -> None:
    stage = Stage()
    with fake_daemon(stage.node) as stage.path:
        code, lines, err = stage.type(capsys, "set", "--manager", node, "-m", "4")
    assert (code, lines, stage.plan) == (exit_codes.NO_SUCH_NODE, [], None), err
    assert "--manager: " in err
    assert err.endswith("; nothing was changed\n")


def test_a_node_without_a_queue_is_refused_unless_forced(stage: Stage, capsys: Said) -> None:
    words = ("set", "--manager", "10.0.0.4", "-m", "4")
    code, lines, err = stage.type(capsys, *words)
    assert (code, lines, stage.plan) == (exit_codes.CONFIGURATION, [], None)
    assert (
        "10.0.0.4 has no queue: set elastic.batch in its configuration and restart its daemon and agent, or " in err
    )
    code, _, _ = stage.type(capsys, *words, "--force")
    assert (code, stage.plan is not None) == (exit_codes.OK, True)


def test_a_kind_that_the_node_does_not_have(stage: Stage, capsys: Said) -> None:
    stage.has_queue(1, kinds=("small", "large"))
    code, _, err = stage.type(capsys, *FIRST, "--kinds", "small,huge")
    assert (code, stage.plan) == (exit_codes.USAGE, None)
    assert "--kinds: 10.0.0.1 has no kind huge in elastic.kinds, which has small, large" in err


def test_slurm_has_no_all_q(stage: Stage, capsys: Said) -> None:
    stage.has_queue(1, "slurm")
    code, _, err = stage.type(capsys, *FIRST)
    assert (code, stage.plan) == (exit_codes.USAGE, None)
    assert "--queue is missing: 10.0.0.1 has Slurm" in err
    assert stage.type(capsys, *FIRST, "--queue", "debug")[0] == exit_codes.OK
    assert stage.type(capsys, "set", "-m", "9")[0] == exit_codes.OK


@pytest.mark.parametrize(
    ("trouble", "words"),
    [
        ("gone", "the node is down"),
        ("older", "the node runs a release of subord that does not know orders"),
        ("lying", "its answer cannot be read: it is of another release"),
    ],
)
def test_a_node_that_tells_nothing(stage: Stage, capsys: Said, trouble: str, words: str) -> None:
    if trouble == "lying":
        stage.world.lying[4] = b"\xff"
    else:
        getattr(stage.world, trouble).add(4)
    code, lines, err = stage.type(capsys, "set", "--manager", "10.0.0.4", "-m", "4", "--timeout", "1")
    assert (code, lines, stage.plan) == (exit_codes.TRY_AGAIN, [], None), err
    assert f"whether 10.0.0.4 has a queue is not known: {words}" in err
    assert "try again, or publish with --force; nothing was changed" in err


# -- off ------------------------------------------------------------------------------------------------------------


def test_off_keeps_the_options_for_the_next_plan(stage: Stage, capsys: Said) -> None:
    stage.type(capsys, *FIRST, "-w", "600", "--user", ANN)
    code, lines, _ = stage.type(capsys, "off", "--dry-run")
    assert (code, lines) == (
        exit_codes.OK,
        ["version 2 would be published by ann: elastic growth is off; nodes stay as they are"],
    )
    assert stage.plan is not None
    assert not stage.plan.is_off
    code, lines, _ = stage.type(capsys, "off", "--json")
    found = fitting("elastic-off", lines[0])
    assert (code, found["off"], found["manager"], found["version"]) == (exit_codes.OK, True, None, 2)
    assert stage.plan.is_off
    code, _, err = stage.type(capsys, "set")
    assert code == exit_codes.CONFIGURATION, "the queue's node is not kept, and this node has no queue"
    assert "10.0.0.7 has no queue" in err
    code, lines, _ = stage.type(capsys, "set", "--manager", "10.0.0.1")
    assert (code, stage.options.job_wait_time_s, len(stage.plan.users)) == (exit_codes.OK, 600, 1)
    assert "--manager             10.0.0.1  -" in lines


def test_off_without_a_plan(stage: Stage, capsys: Said) -> None:
    code, lines, _ = stage.type(capsys, "off")
    assert (code, stage.plan) == (exit_codes.OK, Plan(manager=0))
    assert lines[0].endswith("elastic growth is off; nodes stay as they are")
    code, _, err = stage.type(capsys, "set", "--manager", "10.0.0.1")
    assert (code, "--max_nodes (-m) is missing" in err) == (exit_codes.USAGE, True)


@pytest.mark.parametrize("body", [b"[]", b'{"manager":1,"options":{"max_nodes":0}}', b'{"manager":99999999}'])
def test_a_plan_of_a_later_release(stage: Stage, capsys: Said, body: bytes) -> None:
    stage.hold(5, body)
    code, lines, err = stage.type(capsys, *FIRST)
    assert (code, lines) == (exit_codes.USAGE, [])
    assert "version 5 of the plan is of a later release, which this one cannot change" in err
    code, _, _ = stage.type(capsys, "off")
    assert (code, stage.plan) == (exit_codes.OK, Plan(manager=0))


# -- operators ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("options", "words"), [((), "refused: elastic/plan"), (("--dry-run",), "would be refused")])
def test_an_operator_without_the_power(
    stage: Stage, capsys: Said, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...], words: str
) -> None:
    sign_as("mia", monkeypatch)
    for typed in (FIRST, ("off",)):
        code, lines, err = stage.type(capsys, *typed, *options)
        assert (code, lines, stage.plan) == (exit_codes.PERMISSION, [], None)
        assert words in err
        assert "othing was changed" in err


def test_of_two_operators_at_once_one_is_told(stage: Stage, capsys: Said, monkeypatch: pytest.MonkeyPatch) -> None:
    publish_after(lambda: stage.hold(2, PLAN, principal="bob"), monkeypatch, publishing)
    code, lines, err = stage.type(capsys, *FIRST)
    assert (code, lines) == (exit_codes.NOT_REACHED, [])
    assert "version 2 of bob counts, which was published at the same time: publish again" in err


@pytest.mark.parametrize("typed", [FIRST, ("off",)])
def test_the_other_may_come_before_the_signature(
    stage: Stage, capsys: Said, monkeypatch: pytest.MonkeyPatch, typed: tuple[str, ...]
) -> None:
    """The daemon refuses the order then, because it holds a newer one."""

    stage.hold(3)
    publish_before(lambda: stage.hold(4, PLAN, principal="bob"), monkeypatch)
    code, lines, err = stage.type(capsys, *typed)
    assert (code, lines) == (exit_codes.NOT_REACHED, [])
    assert "version 4 of bob counts, which was published at the same time: publish again" in err


# -- slurm decides --------------------------------------------------------------------------------------------------


def test_slurm_may_decide(stage: Stage, capsys: Said) -> None:
    stage.has_queue(1, "slurm")
    code, lines, _ = stage.type(capsys, *FIRST, "--queue", "batch", "--decides", "slurm")
    assert (code, stage.options.decides) == (exit_codes.OK, "slurm")
    assert "--decides             slurm" in lines
    stage.type(capsys, "set", "-m", "30")
    assert stage.options.decides == "slurm"
    code, lines, _ = stage.type(capsys, "set", "--decides", "subord")
    assert (code, stage.options.decides) == (exit_codes.OK, "subord")
    assert any(each.split() == ["--decides", "subord", "slurm"] for each in lines)


def test_what_makes_no_sense_beside_slurm_is_named(stage: Stage, capsys: Said) -> None:
    code, _, err = stage.type(capsys, *FIRST, "--decides", "slurm")
    assert (code, stage.plan) == (exit_codes.CONFIGURATION, None)
    assert "--decides slurm: 10.0.0.1 has gridengine" in err
    stage.has_queue(1, "slurm")
    code, _, err = stage.type(capsys, *FIRST, "--queue", "batch", "--decides", "slurm", "-K")
    assert (code, stage.plan) == (exit_codes.USAGE, None)
    assert "--kill-cluster has no meaning with --decides slurm" in err
    code, _, err = stage.type(capsys, *FIRST, "--decides", "torque")
    assert (code, stage.plan) == (exit_codes.USAGE, None)


def test_a_program_of_slurm_has_the_queue_looked_at(capsys: Said) -> None:
    stage = Stage()
    with fake_daemon(stage.node, orders=signed_handlers(stage.node)) as stage.path:
        code, lines, err = stage.type(capsys, "poll", "c[1-3,7]", "c9")
        assert (code, lines, stage.node.elastic.asked) == (exit_codes.NOT_REACHED, [], 0)
        assert "this node adds and removes no nodes, so it was not asked to poll: no cluster is elastic" in err
        stage.say(State(word=MANAGES), 7)
        code, lines, err = stage.type(capsys, "poll", "c[1-3,7]")
        assert (code, lines, err) == (exit_codes.OK, ["this node looks at the queue now"], "")
        code, lines, _ = stage.type(capsys, "poll", "--json")
        assert fitting("elastic poll", lines[0])["asked"] is True
        assert stage.node.elastic.asked == 2


# -- other daemons --------------------------------------------------------------------------------------------------

OLDER = json.dumps({"error": "there is nothing here; see /v1/status"}).encode()


@pytest.mark.parametrize("words", [FIRST, ("off",), ("status",), ("why",), ("nodes",), ("poll",)])
@pytest.mark.parametrize(("body", "status"), [(OLDER, 404), (b"\xff{", 200)])
def test_a_daemon_of_another_release(capsys: Said, words: tuple[str, ...], body: bytes, status: int) -> None:
    stage = Stage()
    paths = ("/v1/elastic", "/v1/elastic/plan", "/v1/elastic/manager")
    answer = fixed_answer(body, status)

    async def post(_: Call) -> Response:
        return await answer({})

    with fake_daemon(stage.node, dict.fromkeys(paths, answer), {"/v1/elastic/poll": post}) as stage.path:
        found, lines, err = stage.type(capsys, *words)
    assert (found, lines, stage.plan) == (exit_codes.DAEMON_UNREACHABLE, [], None)
    assert len(err.splitlines()) == 1
