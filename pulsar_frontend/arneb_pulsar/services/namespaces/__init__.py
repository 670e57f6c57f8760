"""Namespaces: which there are, what is set for them, and which broker serves them.

The rule: what is set is durable before it applies.

Read in this order: ``registry`` (tenants, namespaces and their policies), ``dynamic_settings`` (the
defaults of those policies), ``ownership`` (which of them are served here).
"""
