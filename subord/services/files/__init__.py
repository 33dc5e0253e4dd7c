"""`subord files`: brings files to nodes.

Order: the name of a blob with a manifest and the contents of files; effects: the agent of each node writes them.
Result: how many files were made, replaced and left as they were, or a word that says why nothing was changed.
Report, document, settings, metrics: none. Authority: an operator's signature for `subord.files`, and the policy of
the node.
"""
