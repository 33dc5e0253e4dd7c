"""Slurm as a cell: foreign jobs, and jobs of its own in transfer partitions, whose node has a starter."""
