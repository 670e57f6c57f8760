"""What AMQP's vhosts, exchanges, queues and bindings are in the core's terms."""
