"""What the actions of `subord transfer` do."""
