"""Manages a cluster on the node that has its queue: polls, decides, and carries out the stages of nodes.

Pure: what follows a try of the work of a stage (advancing.py), names (services/batch/naming.py), what a poll sees
(looking.py, averages.py), which nodes are lost (losing.py), which the batch system itself wants started and ended
(wanting.py), and what is told (telling.py). With effects: the questions of a poll (sighting.py), the records
(kept.py), the work of each stage (working.py), the walks of nodes through the stages (walking.py), a changed plan for
nodes that serve (renewing.py), and all together (manager.py). needs.py says what they need of nodes and of the disk,
and nodes.py does it through the daemon; role.py is how long the node manages, and which daemons are told; leftover.py
is what it leaves when it manages no more.
"""

from subord.services.elastic.managing.manager import Manager
from subord.services.elastic.managing.needs import Nodes
from subord.services.elastic.managing.working import Cluster

__all__ = ["Cluster", "Manager", "Nodes"]
