"""Operations: what a session asks for, carried out in the topology and the core.

The rule: an answer is a session's to give; what went wrong is told it in AMQP's words.

Read in this order: ``effects`` (the runner, in a session's order), ``methods`` (exchanges and
queues), ``publishes`` with ``stamping``, ``consumers``; ``connectionless`` does the same for a user
without a connection, and ``core_errors`` has the words.
"""
