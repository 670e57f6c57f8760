"""What belongs to one shard's broker, and what it copies of the first shard's users and tenants.

The rule: nothing belongs to two shards, and what belongs to no namespace belongs to the first.
"""
