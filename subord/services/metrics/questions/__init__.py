"""What `subord metrics` asks the root and its subordinates beside their folds."""
