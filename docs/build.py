#!/usr/bin/env python3
"""The generated parts of the documents: the text between `<!-- begin NAME -->` and `<!-- end NAME -->`.

The parts come from the code, from the figures in docs/figures/, and from runs of the protocol core on a simulated
network, so they cannot contradict the program.

    .venv/bin/python docs/build.py          rewrites the parts and the pictures

tests/test_docs.py fails when a part is out of date. subord.config.docs writes docs/configuration.md.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path

DOCS = Path(__file__).resolve().parent
REPOSITORY = DOCS.parent
sys.path[:0] = [str(DOCS), str(REPOSITORY / "tests" / "helpers")]

import build_accounting  # noqa: E402
import build_cluster_metrics  # noqa: E402
import build_elastic  # noqa: E402
import build_evaluation  # noqa: E402
import build_faq  # noqa: E402
import build_growth  # noqa: E402
import build_growth_daemons  # noqa: E402
import build_log  # noqa: E402
import build_machines  # noqa: E402
import build_mappings  # noqa: E402
import build_memory  # noqa: E402
import build_moves  # noqa: E402
import build_mutants  # noqa: E402
import build_order_faults  # noqa: E402
import build_orders  # noqa: E402
import build_page  # noqa: E402
import build_paper  # noqa: E402
import build_peers  # noqa: E402
import build_picture  # noqa: E402 - found by the line above
import build_prometheus  # noqa: E402
import build_releases  # noqa: E402
import build_running  # noqa: E402
import build_scenarios  # noqa: E402
import build_schemas  # noqa: E402
import build_sealing  # noqa: E402
import build_shares  # noqa: E402
import build_shares_lab  # noqa: E402
import build_sparse  # noqa: E402
import build_stories  # noqa: E402
import build_tables  # noqa: E402
import build_targets  # noqa: E402
import build_transfer  # noqa: E402
import build_watching  # noqa: E402

PAGES = (
    "README.md",
    "docs/index.md",
    "docs/install.md",
    "docs/faq.md",
    "docs/architecture.md",
    "docs/security.md",
    "docs/protocol.md",
    "docs/protocol/wire.md",
    "docs/protocol/sealing.md",
    "docs/protocol/transcripts.md",
    "docs/protocol/checking.md",
    "docs/operating.md",
    "docs/reference.md",
    "docs/trouble.md",
    "docs/node-sets.md",
    "docs/exec.md",
    "docs/files.md",
    "docs/accounting.md",
    "docs/hosts.md",
    "docs/elastic.md",
    "docs/batch.md",
    "docs/machines.md",
    "docs/machines-inside.md",
    "docs/transfer.md",
    "docs/transfer-inside.md",
    "docs/metrics.md",
    "docs/shares.md",
    "docs/json.md",
    "docs/page.md",
    "docs/first-cluster.md",
    "docs/prometheus.md",
    "docs/mappings.md",
    "docs/scenarios.md",
    "docs/evaluation.md",
    "docs/evaluation/start.md",
    "docs/evaluation/healing.md",
    "docs/evaluation/rest.md",
    "docs/evaluation/orders.md",
    "docs/evaluation/order-faults.md",
    "docs/evaluation/running.md",
    "docs/evaluation/metrics.md",
    "docs/evaluation/accounting.md",
    "docs/evaluation/elastic.md",
    "docs/evaluation/machines.md",
    "docs/evaluation/transfer.md",
    "docs/evaluation/releases.md",
    "docs/evaluation/peers.md",
    "docs/evaluation/simulator.md",
    "docs/evaluation/attacks.md",
    "docs/evaluation/paper.md",
    "docs/evaluation/mappings.md",
    "docs/evaluation/shares.md",
    "docs/paper.md",
)
PICTURES: dict[str, Callable[[], str]] = {
    "docs/tree.svg": build_picture.svg,
    **build_accounting.PICTURES,
    **build_growth.PICTURES,
    **build_growth_daemons.PICTURES,
    **build_paper.PICTURES,
    **build_peers.PICTURES,
    **build_running.PICTURES,
    **build_transfer.PICTURES,
}
FILES: dict[str, Callable[[], str]] = build_prometheus.FILES | build_schemas.FILES
PART = re.compile(r"(<!-- begin ([a-z-]+) -->\n?).*?(<!-- end \2 -->)", re.DOTALL)


PARTS: dict[str, Callable[[], str]] = {
    "commands": build_tables.commands,
    "messages": build_tables.messages,
    "words-of-messages": build_tables.words,
    "states": build_tables.states,
    "states-diagram": build_tables.states_diagram,
    "triggers": build_tables.triggers,
    "metrics": build_tables.metrics,
    "exit-codes": build_tables.exit_codes,
    "refused-orders": build_tables.refused_orders,
    "tree": build_stories.tree,
    "tree-healed": build_stories.tree_healed,
    "status": build_stories.status,
    "why": build_stories.why,
    "why-healed": build_stories.why_healed,
    **build_cluster_metrics.PARTS,
    **build_accounting.PARTS,
    **build_elastic.PARTS,
    **build_evaluation.PARTS,
    **build_faq.PARTS,
    **build_growth.PARTS,
    **build_growth_daemons.PARTS,
    **build_log.PARTS,
    **build_machines.PARTS,
    **build_mappings.PARTS,
    **build_memory.PARTS,
    **build_moves.PARTS,
    **build_mutants.PARTS,
    **build_order_faults.PARTS,
    **build_orders.PARTS,
    **build_page.PARTS,
    **build_paper.PARTS,
    **build_peers.PARTS,
    **build_prometheus.PARTS,
    **build_releases.PARTS,
    **build_running.PARTS,
    **build_scenarios.PARTS,
    **build_schemas.PARTS,
    **build_sealing.PARTS,
    **build_shares.PARTS,
    **build_shares_lab.PARTS,
    **build_sparse.PARTS,
    **build_targets.PARTS,
    **build_transfer.PARTS,
    **build_watching.PARTS,
    **{f"story-{name}": story for name, story in build_stories.STORIES.items()},
}


def fresh(page: str) -> str:
    """The text of a page with current generated parts."""
    return PART.sub(lambda found: found[1] + PARTS[found[2]]() + found[3], page)


def main(root: Path = REPOSITORY) -> None:
    """Rewrite the pages and pictures below `root` that are out of date."""
    contents = {name: fresh((root / name).read_text(encoding="utf-8")) for name in PAGES}
    contents |= {name: draw() for name, draw in (PICTURES | FILES).items()}
    for name, text in contents.items():
        path = root / name
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
            print(f"{name}: written")


if __name__ == "__main__":
    main()
