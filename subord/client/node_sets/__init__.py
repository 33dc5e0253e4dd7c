"""Sets of nodes, as every command takes them: ClusterShell's notation, its groups, and names or addresses.

algebra.py reads the text, groups.py finds groups, choice.py gives a command the addresses of the nodes.
"""
