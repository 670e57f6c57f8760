"""Topics: which there are, and what is kept of each beside its messages.

The rule: nothing is said about a topic before it is on disk.

Read in this order: ``topics`` (found, created and removed), ``topic_policies`` (what the core does
for them on its own), ``schemas``, ``deduplication`` (nothing is stored twice), ``compactor``
(superseded messages).
"""
