"""The ledger on disks: the spool of this node, the sinks, and what connects both with the engine."""
