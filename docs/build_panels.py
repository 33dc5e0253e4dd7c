"""What a panel of the dashboard is: its type, title and unit, and the queries that it draws."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

JOB = 'job="$job"'
RATE = "[$__rate_interval]"


class Query(NamedTuple):
    """One or several curves; `legend` names them by their labels, `{{label}}`."""

    expr: str
    legend: str = ""


class PanelSpec(NamedTuple):
    """One panel. `kind`: Grafana's name of its type; `red_from`: a number is red from here on."""

    kind: str
    title: str
    unit: str
    queries: Sequence[Query]
    about: str = ""
    red_from: float | None = None


def stat(title: str, expr: str, about: str, red_from: float | None = None, unit: str = "none") -> PanelSpec:
    """The present value."""
    return PanelSpec("stat", title, unit, (Query(expr),), about, red_from)


def curves(title: str, unit: str, *queries: Query, about: str = "") -> PanelSpec:
    """Values over time."""
    return PanelSpec("timeseries", title, unit, queries, about)


def durations(title: str, name: str) -> PanelSpec:
    """The histogram `name` of seconds over time."""
    expr = f"sum by (le) (increase(subord_{name}_seconds_bucket{{{JOB}}}{RATE}))"
    return PanelSpec("heatmap", title, "s", (Query(expr, "{{le}}"),))
