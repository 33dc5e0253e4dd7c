"""Families of `/metrics` that are about one part of a node."""
