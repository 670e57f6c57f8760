"""Policies: what operators set for namespaces and topics, and what they cannot set.

The rule: a setting is durable before it is answered, and holds for every topic below from then on.

Read in this order: ``policies``, ``permissions``, ``properties``, ``resource_groups``, ``unset``
(settings that this broker does not have).
"""
