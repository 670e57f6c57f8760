"""Requests: what a client asks, as values, and what it is answered.

The rule: no route and no broker is known here.

``calls`` are requests and replies, ``rules`` says who may use a route; ``arguments`` and ``upload``
read what bodies hold, ``written`` makes long answers in pieces.
"""
