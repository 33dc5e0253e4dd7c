"""The network of a lab: addresses, namespaces, bridges, links, and what is done to frames."""
