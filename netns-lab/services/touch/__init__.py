"""`subord touch`: a service with effects for tests: a file of each node counts how often it acted."""
