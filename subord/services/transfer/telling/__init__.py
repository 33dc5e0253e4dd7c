"""What nodes say of transfer queues, and what the asking node makes of it."""
