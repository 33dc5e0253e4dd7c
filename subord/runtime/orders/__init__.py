"""Orders on sockets: the driver of core/carriage/engine, its links, and the services of this node."""
