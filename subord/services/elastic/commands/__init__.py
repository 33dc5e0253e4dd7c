"""What `subord elastic` does: it publishes the plan, shows how nodes follow it, and writes statistics."""
