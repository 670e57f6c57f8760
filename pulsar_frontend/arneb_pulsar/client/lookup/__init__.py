"""Lookup: which broker has a topic, and which topics there are.

The rule: one question, one answer or one error; the caller decides whether to ask again.

Read in this order: ``lookup``, ``search`` (from broker to broker), ``http_calls`` (for a service
that is asked over HTTP).
"""
