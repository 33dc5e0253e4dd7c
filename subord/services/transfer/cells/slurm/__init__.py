"""Slurm as a cell: it runs foreign jobs. Its own jobs do not leave, because it has no starter method."""
