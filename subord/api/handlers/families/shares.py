"""The shares of the classes of work for Prometheus, while the node holds a document of shares.

Input: how the node follows shares, and its overview. Output: metric families; none when shares were never set. While
shares are off there are the version and the state alone. Shares are ratios: 1 is the whole of a node. `got` and
`used` are of the node's branch, at the root of the whole cluster; `obeyed` is of the node alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from subord.api.models.shares import figures_of
from subord.api.node_api import Shares
from subord.core.carriage.shares.interface import Overview, Row
from subord.core.carriage.shares.plan import Plan
from subord.runtime.shares.state import WORDS

PERCENT = 100.0


def families(shares: Shares) -> Iterator[Metric]:
    """All families about shares."""
    found = shares.overview()
    if found.plan is None:
        return
    yield _gauge("plan_version", "Version of the document of shares that the node holds", found.plan.version)
    text = "How the node follows the shares: 1 for the word that is true, else 0"
    yield _by("state", text, "word", WORDS, [float(word == shares.state.word) for word in WORDS])
    if not found.plan.is_off:
        yield from _in_force(found, found.plan)


def _in_force(found: Overview, plan: Plan) -> Iterator[Metric]:
    text = "Nodes of the branch by the roster, which should have a part in the decisions of this node"
    yield _gauge("nodes_asked", text, found.asked)
    yield _gauge("nodes_told", "Nodes of the branch that have a part in the decisions of this node", found.told)
    text = "Rounds of this node since the present document came"
    yield CounterMetricFamily("subord_shares_rounds", text, value=float(found.round))
    yield _of_classes("wanted", "Share of a class that this node wants over its branch", plan, found.wanted)
    text = "Share that this node is to give a class; the state says whether it does"
    yield _of_classes("obeyed", text, plan, found.obeyed)
    figures = figures_of(found.branches)
    got, used, needy = ((), (), ()) if figures is None else figures
    yield _of_classes("got", "Share of a class that the nodes of the branch have given it, the mean", plan, got)
    yield _of_classes("used", "Share of a class that it has used on the nodes of the branch, the mean", plan, used)
    text = "1 if work of the class was left over on a node of the branch in the last round, else 0"
    yield _by("needy", text, "class", plan.classes, [float(each) for each in needy])


def _of_classes(name: str, text: str, plan: Plan, row: Row) -> Metric:
    return _by(f"{name}_ratio", text, "class", plan.classes, [each / PERCENT for each in row])


def _gauge(name: str, text: str, value: float) -> Metric:
    return GaugeMetricFamily(f"subord_shares_{name}", text, value=float(value))


def _by(name: str, text: str, label: str, of: Sequence[str], values: Iterable[float]) -> Metric:
    """Without samples when nothing is known."""
    family = GaugeMetricFamily(f"subord_shares_{name}", text, labels=(label,))
    for each, value in zip(of, values, strict=False):
        family.add_metric((each,), value)
    return family
