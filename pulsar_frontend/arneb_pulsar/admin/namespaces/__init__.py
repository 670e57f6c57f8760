"""Namespaces: created, listed, split into bundles and removed, and the kinds of policies they have.

The rule: every policy that can be set on a namespace can be given when it is created, with the same
checks.

Read in this order: ``namespaces``, ``policy_kinds`` (one row a policy), ``creation`` (a new
namespace's document), ``bundles``.
"""
