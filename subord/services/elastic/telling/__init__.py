"""What nodes tell of elastic growth, and the documents that the asking node makes of it."""
