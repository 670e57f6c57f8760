"""Routing: clients may connect to any node, whichever node leads what they want.

The rule: it carries bytes and tells addresses. Frontends understand what clients say; here only
frame boundaries are known.
"""
