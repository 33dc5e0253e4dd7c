"""`subord elastic`: a cluster grows and shrinks with the queue of its batch system.

Order: a question; or a step of the queue's node to a node that it adds (task.py). Result: how the node takes part,
and of the queue's node what it sees and decides; or what came of the step. Document: `elastic/plan`, which an
operator signs. Report: none. Settings: [elastic]. Authority: every member may ask; the power `plans` changes the
plan; the key of the queue's node gives the steps.

The parts: the options of the text (options.py), the plan (plan.py), what a poll sees (seen.py), what is decided from
both (deciding.py), with a sentence for each reason, and a line of statistics for each poll (statistics.py); the
stages of a node (stages.py) and its record (records.py); the queue's node at work (role.py, managing/), what starts
nodes (suppliers.py), and what an added node does (preparing/); what nodes tell (telling/), and what the command does
(commands/). All effects begin in agent.py.

"The text" in these modules is StarCluster's manual, "Elastic Load Balancer". Where the text and the original's code
differ, the text counts; docs/elastic.md has the list.
"""

from __future__ import annotations

from typing import Final

COLUMNS: Final = (
    "time",
    "num_hosts",
    "running",
    "queued",
    "slots",
    "avg_duration",
    "avg_wait",
    "avg_load",
)
"""Of the statistics. They stand here since the help of the command has them, and a start imports little."""
PLOTS: Final = ("queued", "running", "num_hosts", "avg_duration", "avg_wait", "avg_load")
"""One picture each."""
