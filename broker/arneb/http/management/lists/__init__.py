"""Lists: very many objects, sorted, filtered and cut into pages.

The rule: nothing is done for more than a few hundred objects between two turns of others, and a
document is made only of what is shown.

Read in this order: ``ordering`` (the first by some figure), ``lists`` (a request for a page),
``queues_by_name``, ``rows`` (queues and topics in one list), ``ages`` (of their oldest messages).
"""
