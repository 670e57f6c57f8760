"""Interface: what a session asks of its server, and what the server reports to it, as values.

The rule: values only; each event answers an effect, unless it says "Unasked".

Read in this order: ``effects``, ``events``, ``pending_sends`` and ``assigned`` (what both carry).
"""
