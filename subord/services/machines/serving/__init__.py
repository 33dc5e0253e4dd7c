"""The part of a server: its agent tells what is there, and does what the queue's node orders, if it may.

The parts: what libvirt has, in the words of the model (adapter.py); what is under way (works.py); what is kept on the
disk (kept.py); a picture of all of it (picture.py); questions and orders (host.py), the steps that take no time
(steps.py) and those that do (doing.py); and what is told to the daemon (telling.py).
"""
