"""Bytes named by their hash, from leader to subordinate in chunks: docs/protocol/blobs.md."""
