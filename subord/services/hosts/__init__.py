"""`subord hosts`: every node knows the names and addresses of the nodes that a cluster has added, by one table.

Order: a question, which version of the table a node has applied, or why not. Document: `hosts/table`, which the
queue's node signs (services/elastic), or an operator. Settings: elastic.hosts_file. Report, metrics: none. Authority:
every member may ask; the power `hosts` changes the document.

The parts: the table and its form in a document (table.py), the block of lines in a file (block.py), how it is written
(writing.py), the agent that does so (agent.py), what nodes tell (telling.py, documents.py), how the agent of the
queue's node publishes a table and asks for it (publishing.py), and the command (command.py, showing.py,
ending.py). The daemon's side is in runtime/hosts.
"""
