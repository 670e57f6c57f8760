"""The servers of one broker: what listens, what they share, and an orderly end.

The rule: a broker is an engine and its servers; nothing here knows whether it runs alone or for a
shard of a cluster.

Read in this order: ``run`` (the order of a start and a stop), ``shared`` (what is made once for all
servers), ``management`` (the same for the management API), ``handed_over`` (the entry points of a
broker without listeners, for the code that accepts its clients).
"""
