"""Group commit: from the requests of all topics to one commit, and back to those who asked.

The rule: nothing counts before the commit log says that it is stored; then memory changes, and then
callers are told.
"""
