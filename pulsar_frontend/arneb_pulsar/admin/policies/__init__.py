"""Policies: what operators set for namespaces and topics, and what they cannot set.

The rule: a setting is durable before the call is answered, and from then on applies to every topic
below.

Read in this order: ``policies``, ``permissions``, ``properties``, ``resource_groups``, ``unset``
(settings that this broker does not have).
"""
