"""Topics: created, found, shown and removed, with their schemas and statistics.

The rule: calls work as for the topics' own clients, with the same checks.

Read in this order: ``topics``, ``lookup``, ``schemas``, ``statistics``.
"""
