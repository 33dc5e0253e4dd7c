"""How this node takes part in elastic growth, as its agent tells the daemon."""
