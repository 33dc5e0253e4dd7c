"""Shares of classes of work on real daemons: with real cgroups and loads, and with agents that are played."""
