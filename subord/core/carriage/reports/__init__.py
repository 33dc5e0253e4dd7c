"""Reports: bounded records that go up the tree, folded at every leader (docs/protocol/reports.md)."""
