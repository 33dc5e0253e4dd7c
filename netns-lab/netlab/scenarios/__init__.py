"""Scenario files with real daemons."""
