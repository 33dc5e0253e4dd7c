"""What the page shows of virtual machines: the last round of the queue's node, and how full each server is."""
