"""`subord metrics`: what the nodes of the cluster do, with the number of nodes that every figure covers."""
