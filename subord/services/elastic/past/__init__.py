"""What the page shows of elastic growth: the queue's node now, and its last polls."""
