"""Cells: the batch system of one cluster, as far as transfer queues need it."""
