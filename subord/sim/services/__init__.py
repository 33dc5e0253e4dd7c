"""Orders in the simulator: the daemon's engine in every node, drawn orders, and checkers."""
