"""Every leader divides the nodes below it among classes of work: docs/protocol/shares.md."""
