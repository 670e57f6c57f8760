"""Clients: who is connected, who produces, consumes and watches, and by which right.

The rule: connections are known by protocols only, and whoever loses a place here is told before
another takes it.

Read in this order: ``connections``, ``producers``, ``consumers`` and ``watchers`` (who is here),
``authenticator`` (who they are), ``rights`` (what they may still do), ``message_observer`` (who
sees their messages).
"""
