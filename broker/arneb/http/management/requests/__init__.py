"""Requests: a client's calls and their replies, as values.

The rule: this layer knows no route and no broker.

``calls`` has requests and replies, ``rules`` says who may use a route; ``arguments`` and ``upload``
read bodies, ``written`` renders long answers in pieces.
"""
