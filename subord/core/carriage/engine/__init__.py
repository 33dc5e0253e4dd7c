"""The pure engine of orders: docs/protocol/carriage.md."""
