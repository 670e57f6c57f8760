"""The cluster: a replicated commit log on Apache Pulsar, and who leads.

The rule: it stands above the core's border and commit log and above Pulsar's client; the engine,
the frontends and Spark do not know that it exists, and a broker without a cluster does not import
it.
"""
