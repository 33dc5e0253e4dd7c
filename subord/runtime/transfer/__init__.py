"""How this node takes part in transfer queues, as its agent tells the daemon."""
