"""The machines of one server through libvirt. A library; it decides nothing.

The interface (interface.py) returns records (records.py) for whatever libvirt does; nothing here raises for it. A
machine of ours has a mark in its definition (marks.py): cluster, type, and the stage of a change that is not
complete. A machine with a stage is never started, so a clone, a deletion or a move that was interrupted harms nothing
and is completed by a second call. All that is known of a machine is in libvirt, so after a restart of this program
every machine is known at the first reading.

The parts: definitions as text (definitions.py, marks.py, names.py), what is read (reading.py) and changed (changes/),
sentences for errors (faults.py), threads with time limits (calls.py), the binding (binding.py), the connection and
its events (link.py, events.py), and all of it together (driver.py). A move between two servers is in moving.py.
"""
