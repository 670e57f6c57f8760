"""A node's ports: they accept clients whether the node leads or not.

The rule: what a client wants decides which shard's broker serves it; where that broker is, here or
on another node, is the cluster's answer.
"""
