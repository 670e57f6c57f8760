"""Lists: very many objects, sorted, filtered and split into pages.

The rule: a turn handles a bounded number of objects, and documents are made only for objects that
are shown.

Read in this order: ``ordering`` (the first objects by some figure), ``lists`` (a request for a
page), ``queues_by_name``, ``rows`` (queues and topics in one list), ``ages`` (of oldest messages).
"""
