"""Routing: clients reach any node, whichever of them leads what they want.

The rule: it carries bytes and tells addresses. What a client says is understood by the frontends;
here no more of it is known than where a frame begins and ends.
"""
