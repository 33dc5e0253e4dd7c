"""What nodes tell of shares: the answers of a node, and the documents that the asking node makes of them."""
