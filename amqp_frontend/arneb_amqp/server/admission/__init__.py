"""Admission: who may connect, to which vhost, and whether there is room.

The rule: all of this is checked before a session serves the client.

Read in this order: ``logins`` and ``certificates`` (who the client is), ``entrance`` (to which
vhost), ``occupancy`` (how many are connected). Where any node accepts clients, ``reception`` does
the handshake, and ``admission_document`` passes the client on to the node that serves it.
"""
