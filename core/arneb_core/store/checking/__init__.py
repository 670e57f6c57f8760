"""The check: walks everything in a store and verifies that it fits together.

The rule: it only reads, and may run while a broker has the store open; every fault is a finding.

Read in this order: ``check`` (the walk), ``findings`` and ``inventory`` (what it has found and
read), its steps ``log``, ``bodies``, ``cursors`` and ``delayed``, ``check_in_child`` (in a process
of its own).
"""
