"""The cluster: a replicated commit log on Apache Pulsar, and its leadership.

The rule: it sits above the core's API and commit log and above Pulsar's client; the engine, the
frontends and Spark do not know it, and a broker without a cluster does not import it.
"""
