"""The shards on a node: their settings, their directories, and a broker for each that it leads.

The rule: a shard knows nothing of the ports, which find its broker through its entry points.
"""
