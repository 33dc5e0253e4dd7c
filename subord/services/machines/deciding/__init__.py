"""The iteration of the text: from what is seen to what is done, with a reason for each job that gets nothing. Pure.

The order of its steps is in iteration.py; each other module is one of them.
"""
