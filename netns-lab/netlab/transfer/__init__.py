"""Transfer queues in the lab: two real cells of Grid Engine, and a stand-in for the agents between them."""
