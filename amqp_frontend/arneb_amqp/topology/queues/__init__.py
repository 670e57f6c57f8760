"""The queues of a vhost: options, limits, consumers."""
