"""Records that climb the tree until a sink has them on its disk: docs/protocol/ledger.md."""
