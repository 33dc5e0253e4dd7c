"""Moves that are under way or were refused, and clones where only some servers have the template, in one decision."""

from __future__ import annotations

from typing import Any

from subord.services.machines.deciding.iteration import decide
from subord.services.machines.deciding.picture import Seen
from subord.services.machines.model import Capacity, State
from subord.services.machines.orders import Clone, Pending, Start, Stay
from tests.machines.tables import NOW, PLAN, actions, decided, foreign, jobs, machine, plan, server


def test_a_machine_that_moves_is_coming_though_no_answer_names_it() -> None:
    """That of the server that gave it is newer than that of the other one."""
    pending = (Pending(Start("m", "b", "a"), NOW - 5, NOW + 100, "small"),)
    servers = [server("a"), server("b", capacity=Capacity(1, 8000, 0, 4))]
    found = decided(servers, jobs("short"))._replace(notes=())
    assert [type(each).__name__ for each in actions(found)] == ["Clone"], "without it"
    seen = Seen(NOW, tuple(servers), jobs("short", "short"), pending)
    both = decide(PLAN, seen)
    assert both.whys["1"] == "the machine m is coming up"
    assert [each.server for each in actions(both) if isinstance(each, Clone)] == ["a"], "b has no room besides"


def test_a_clone_is_made_where_its_template_is() -> None:
    servers = [server("a", mhz=2000), server("b", mhz=3000)]
    found = decided(servers, jobs("short"), templates={"small": frozenset({"a"})})
    assert actions(found) == [Clone("small-001", "small", "a")]
    full = [server("a", capacity=Capacity(0, 0, 0, 0)), server("b")]
    found = decided(full, jobs("short"), templates={"small": frozenset({"a"})})
    assert actions(found) == []
    assert found.unmet == {"1"}


def test_templates_of_one_name_on_several_servers_are_no_machine_of_ours() -> None:
    template = foreign("s")._replace(state=State.OFF)
    servers = [server("a", template), server("b", template)]
    found = decided(servers, jobs("short"))
    assert [type(each) for each in actions(found)] == [Clone]
    assert found.notes == ()


def test_a_machine_that_could_not_be_moved_starts_where_it_is() -> None:
    servers = [server("a", machine("m")), server("b", mhz=9000)]
    given = plan(store_mb=1000)
    assert actions(decided(servers, jobs("short"), given)) == [Start("m", "b", "a")]
    assert actions(decided(servers, jobs("short"), given, staying=frozenset({"m"}))) == [Start("m", "a")]


def test_a_move_is_taken_back_when_the_other_server_has_refused_the_machine() -> None:
    servers = [server("a", machine("m", given_to="b")), server("b", mhz=9000)]
    seen: dict[str, Any] = {"staying": frozenset({"m"}), "refused": frozenset({"m"})}
    assert actions(decided(servers, jobs("short"), plan(store_mb=1000), **seen)) == [Stay("m", "a", "b")]
    silent = [server("a", machine("m", given_to="b"), is_reachable=False), server("b", mhz=9000)]
    assert actions(decided(silent, jobs("short"), plan(store_mb=1000), **seen)) == []
