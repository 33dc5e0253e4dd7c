"""The last minutes of what a node decides, and how the page learns of them."""
