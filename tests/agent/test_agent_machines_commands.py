"""`subord machines` at real daemons with real agents, and libvirt's test driver."""

from __future__ import annotations

from typing import Final

import pytest

from subord.client import exit_codes
from tests.agent.test_agent_machines_processes import FIRST, MASTER, PLAN, SECOND, Cluster, cluster

pytestmark = pytest.mark.slow
__all__ = ["cluster"]
NO_BATCH: Final = f"{MASTER} has no batch system: set machines.batch in its configuration and restart its daemon and "


def typed(cluster: Cluster, *words: str) -> tuple[int, str, str]:
    """The exit code, the output with single spaces, and what stands on standard error."""
    done = cluster.command("machines", *words, "--addresses")
    return done.returncode, " ".join(done.stdout.split()), done.stderr


def test_from_no_plan_to_machines_that_are_listed(cluster: Cluster) -> None:
    file = cluster.top / "plan.toml"
    file.write_text(f'manager = "{MASTER}"\nstore_mb = 1000000\n{PLAN}')

    # Before there is a plan, agents have told nothing.
    code, out, _ = typed(cluster, "list")
    assert code == exit_codes.NOT_REACHED
    assert "10.9.0.[2-3]: what is on it is not known: no machines are managed: no plan was published" in out
    code, out, _ = typed(cluster, "policy", "check", str(file))
    assert code == exit_codes.USAGE
    assert f"wrong: {NO_BATCH}" in out
    assert "note: what is on 10.9.0.[2-3] is not known: no machines are managed" in out
    code, _, err = typed(cluster, "plan", str(file))
    assert (code, NO_BATCH in err, err.endswith("; nothing was changed\n")) == (exit_codes.CONFIGURATION, True, True)
    cluster.until(lambda: typed(cluster, "status")[0] == exit_codes.OK, "the root knows all members")
    assert "no plan was published" in typed(cluster, "status")[1]

    # A plan for trial has servers tell what they have.
    code, out, err = typed(cluster, "plan", str(file), "--trial", "--force")
    assert code == exit_codes.OK, err
    assert f"{MASTER} has the queues; it is a trial, and nothing is done" in out
    cluster.until(lambda: typed(cluster, "list")[0] == exit_codes.OK, "both servers have told their machines")
    _, out, _ = typed(cluster, "list")
    assert f"alma {FIRST} - off" in out
    assert f"alma {SECOND} - off" in out
    cluster.until(lambda: "failed" in typed(cluster, "status")[1], "the queue's node has said why it does not decide")
    code, out, _ = typed(cluster, "status")
    assert code == exit_codes.NOT_REACHED
    assert f"failed 1 {MASTER}" in out
    assert "serves 2 10.9.0.[2-3]" in out
    assert "machines.batch is empty on this node" in out

    # Now the plan is compared with what servers have.
    file.write_text(file.read_text().replace('template = "alma"', 'template = "debian"'))
    code, out, _ = typed(cluster, "policy", "check", str(file))
    assert code == exit_codes.USAGE
    assert "wrong: the template debian of the type alma is on no server: define it there" in out
    file.write_text(file.read_text().replace("cores = 2", "cores = 1000"))
    _, out, _ = typed(cluster, "policy", "check", str(file))
    assert "wrong: a machine of the type alma fits on no server, even if it is empty: on 10.9.0." in out

    # A server is drained by its operator, over the end of the plan.
    code, out, err = typed(cluster, "drain", FIRST)
    assert (code, out.startswith(f"{FIRST}: no machine starts there")) == (exit_codes.OK, True), err
    code, out, _ = typed(cluster, "drain", MASTER)
    assert (code, "machines.uri of this node is empty, so it is no server" in out) == (exit_codes.NOT_REACHED, True)
    assert cluster.command("machines", "off").returncode == exit_codes.OK
    cluster.until(lambda: typed(cluster, "status")[0] == exit_codes.OK, "all nodes have the plan that is off")
    code, out, _ = typed(cluster, "list", FIRST, "--servers")
    assert (code, "drained" in out) == (exit_codes.OK, True)
