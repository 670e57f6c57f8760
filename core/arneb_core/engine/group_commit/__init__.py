"""Group commit: gathers the requests of all topics into one commit, and reports its outcome.

The rule: nothing counts before the commit log says that it is durable; then memory changes, and
then callers are called back.
"""
