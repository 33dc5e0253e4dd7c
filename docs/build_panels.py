"""What a panel of the dashboard is: its type, title and unit, and the queries that it draws."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

JOB = 'job="$job"'


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
