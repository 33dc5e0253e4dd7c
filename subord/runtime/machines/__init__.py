"""How this node takes part with virtual machines of a batch queue, as its agent tells the daemon."""
