"""The experiments of the paper, its figures 3 to 8, on the policies of this package: `subord simulate shares`.

Requests of a node are drawn by a lottery or flow as a fluid (serving.py), nodes and leaders report and decide
(actors.py) by a calendar (playing.py); experiments.py has one entry for each figure, measures.py its numbers.
tree.py has the same nodes in a tree, each with the part of shares that the daemon runs, so leaders may die.
Nothing here computes shares. Chance comes from one Random for each seed.
"""
