"""What nodes tell of virtual machines, and the documents that the asking node makes of it."""
