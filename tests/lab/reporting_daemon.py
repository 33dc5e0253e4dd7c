"""A daemon of the lab with a service `load`, which is nothing but a report; `Lab(daemon=THIS FILE)` runs it."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

from subord import cli
from subord.api.models.coverage import CoverageDocument
from subord.api.node_api import NodeApi
from subord.core.carriage.reports.algebra import Count, Nodes, Sum
from subord.core.carriage.reports.kinds import Value
from subord.services import serving
from subord.services.contract import Answered, Publishing, ReportService
from subord.services.serving import of_coverage

INTERVAL_S = 1.0


class LoadDocument(CoverageDocument, frozen=True, kw_only=True):
    nodes: int
    sum: float
    positions: str


async def record(node: NodeApi) -> dict[str, Value]:
    position = node.snapshot().position
    return {"nodes": Count(1), "sum": Sum.of(position), "positions": Nodes.of((position,))}


def document(answered: Answered) -> CoverageDocument:
    nodes, total = answered.value("nodes", Count), answered.value("sum", Sum)
    positions = str(answered.value("positions", Nodes).ranges)
    return of_coverage(LoadDocument, answered, nodes=nodes.value, sum=total.value, positions=positions)


def main(argv: list[str]) -> int:
    module: Any = ModuleType("subord.services.load.core")
    module.SERVICE = ReportService(Publishing(record, INTERVAL_S), document)
    sys.modules["subord.services.load"] = ModuleType("subord.services.load")
    sys.modules["subord.services.load.core"] = module
    patched: Any = serving
    patched.NAMES = ("load",)
    return cli.main(argv)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
