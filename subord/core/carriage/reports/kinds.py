"""The kinds that a field of a report may have, by their numbers on the wire.

Input is any number of values of one field; output is their fold. Invariant: values of different kinds under one name
do not mix: the wanted kind stays, which is that of the node's own record, else the one with the lowest number.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from subord.core.carriage.reports.algebra import Count, Latest, Max, Min, Nodes, Quantiles, Sum, Tally, Top
from subord.core.carriage.reports.spread import Spread

Value = Count | Sum | Min | Max | Quantiles | Top | Nodes | Tally | Latest | Spread
KINDS: Final = (Count, Sum, Min, Max, Quantiles, Top, Nodes, Tally, Latest, Spread)
NUMBER_OF: Final[dict[type, int]] = {kind: number for number, kind in enumerate(KINDS, 1)}


def folded(values: Sequence[Any], wanted: type | None = None) -> Any:
    """At least one value of one field, as one. `wanted`: of these kinds the one that stays."""
    if len(values) == 1:
        return values[0]
    kind: Any = wanted or min(map(type, values), key=NUMBER_OF.__getitem__)
    return kind.merge([each for each in values if type(each) is kind])
