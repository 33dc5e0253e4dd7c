"""Orders in the simulator: the engine of the daemon in every node, drawn orders, and checkers (docs/protocol/carriage.md)."""
