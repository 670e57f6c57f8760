"""AMQP's vhosts, exchanges, queues and bindings in the core's terms."""
