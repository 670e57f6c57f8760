"""Answers about all shards of a cluster, combined from the answers of each shard's leader.

The rule: a request about everything is answered for every shard, or not at all.

Read in this order: ``gathering`` (which requests, and how their answers are combined), ``gathered``
(asks the leaders), ``gathered_pulsar`` (the same for Pulsar's admin API), ``merging`` (one page of
a list), ``page_parts`` (answers for the management page); ``paths`` reaches one shard by name.
"""
