"""Slurm: its answers (squeue, sinfo, sacct, scontrol), and how nodes come and go."""
