"""Other programs in the same lab, for comparison and for monitoring."""
