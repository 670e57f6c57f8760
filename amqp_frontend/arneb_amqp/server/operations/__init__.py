"""Operations: a session's effects, carried out in the topology and the core.

The rule: only the session answers its client; a failure reaches it as an AMQP error.

Read in this order: ``effects`` (the runner, in a session's order), ``methods`` (exchanges and
queues), ``publishes`` with ``stamping``, ``consumers``; ``connectionless`` does the same for a user
without a connection, and ``core_errors`` maps the core's errors to AMQP's.
"""
