"""`subord exec`: runs a command on nodes, and shows what it printed and how it ended on each.

Order: a `Run` with the command, its environment, directory, standard input and time, or a `Fetch` of output that
a node has kept (task.py). Result: an `Ended` with the exit code and the output up to a bound, or a `Piece`.
Report, settings, metrics: none of its own. Authority: the signature of an operator whom the policy of the node allows
`exec` as the user of the order; it is denied by default.
"""
