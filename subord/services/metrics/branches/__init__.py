"""The figures of each branch below the root: what nodes answer, and what `subord metrics --by branch` shows."""
