"""The daemons' event log, and what follows from it."""
