"""The processes of a lab: keeper, controller, zygotes, and commands on nodes."""
