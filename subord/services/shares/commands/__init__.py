"""What `subord shares` does: it publishes the document, and shows how the nodes follow it."""
