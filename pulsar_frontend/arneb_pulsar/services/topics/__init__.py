"""Topics: which there are, and what is kept of each beside its messages.

The rule: what anybody is told of a topic is on disk first.

Read in this order: ``topics`` (found, created and removed), ``topic_policies`` (what the core does
for them by itself), ``schemas``, ``deduplication`` (nothing is stored twice), ``compactor``
(superseded messages).
"""
