"""The table of hosts at a running node: whether its agent has written it."""
