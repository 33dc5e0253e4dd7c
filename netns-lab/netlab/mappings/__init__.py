"""The mappings `latency` and `performance`, measured."""
