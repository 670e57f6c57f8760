"""The demo of a cluster: three nodes on a real Apache Pulsar, and the leader killed under load.

The rule: every number that it reports has been counted; anything wrong ends it with exit status 1.
"""
