"""The demo of a cluster: three nodes on a real Apache Pulsar, and the leader killed under load.

The rule: what it says it has counted; whatever is off ends it with exit status 1.
"""
