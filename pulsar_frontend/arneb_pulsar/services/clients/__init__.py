"""Clients: who is connected, who produces, consumes and watches, and by which right.

The rule: connections are known by protocols only, and a client that is displaced is notified before
another takes its place.

Read in this order: ``connections``, ``producers``, ``consumers`` and ``watchers`` (who is
connected), ``authenticator`` (who they are), ``rights`` (what they may still do),
``message_observer`` (who sees their messages).
"""
