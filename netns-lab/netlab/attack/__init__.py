"""A host without the key of the cluster, and what it can do."""
