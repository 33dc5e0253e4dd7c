"""What the lab measures of subord alone."""
