"""AMQP connections and channels as state machines without I/O: items in, effects and bytes out."""
