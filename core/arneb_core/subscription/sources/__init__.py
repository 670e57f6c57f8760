"""Where a subscription's next entries come from: the log, returned entries, due entries.

The rule: a source knows positions and bytes, and no consumers.
"""
