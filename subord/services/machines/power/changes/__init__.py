"""Each change of a machine, as functions that run in a thread."""
