"""Blobs on the disk of a node, and what connects them with the engine."""
