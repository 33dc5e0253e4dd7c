"""What `subord machines` does: it publishes and checks plans, and shows servers, machines and decisions."""
