"""What a node does as a target itself: at most once for each tag."""
