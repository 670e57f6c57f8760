"""Admission: who comes in, into which vhost, and whether there is room.

The rule: what is judged here is judged before a session serves anybody.

Read in this order: ``logins`` and ``certificates`` (who it is), ``entrance`` (into which vhost),
``occupancy`` (how many are in). Where any node receives clients, ``reception`` shakes hands, and
``admission_document`` is how a client goes on at another node.
"""
