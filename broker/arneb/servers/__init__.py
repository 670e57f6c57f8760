"""The servers of one broker: what listens, what they share, and an orderly end.

The rule: a broker is an engine and what serves it; whether it runs alone, or for a shard of a
cluster, is not known here.

Read in this order: ``run`` (the order of a start and a stop), ``shared`` (what is made once for all
servers), ``management`` (the same for the management API), ``handed_over`` (what a broker without
listeners gives to whoever receives its clients).
"""
