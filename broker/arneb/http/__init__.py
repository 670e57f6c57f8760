"""The HTTP port: health, metrics and what there is, read-only.

The rule: it reads ``statistics()`` and nothing deeper, so that no figure shown here can be
one that the rest of the program does not also stand by.
"""
