"""Answers about all shards of a cluster, put together from those of each shard's leader.

The rule: what is about everything is about every shard, or there is no answer.

Read in this order: ``gathering`` (which requests those are), ``gathered`` (asked and answered),
``gathered_pulsar`` (the same of Pulsar's admin API), ``merging`` (one page of a list),
``page_parts`` (what the page is told); ``paths`` is one shard, asked for by name.
"""
