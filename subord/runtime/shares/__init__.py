"""The shares of a running node: the part of the carriage, and what the agent does for it."""
