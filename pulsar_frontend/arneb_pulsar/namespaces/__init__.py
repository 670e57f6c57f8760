"""Places: the tenants, namespaces and partitioned topics of the Pulsar context, and their policies.

The rule: what is asked here is what is on disk; the words are those of Pulsar's admin API.
"""
