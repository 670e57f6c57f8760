"""The demo: 10,000 orders with all three kinds of client, with a SIGKILL in the middle.

``python -m arneb.demo`` starts a broker on free ports and a temporary directory, publishes
orders by pika with confirms, consumes half of them by aio-pika, kills the broker, starts it
again, consumes the rest by the official Pulsar client on the same subscription, and lets
Spark aggregate all of them from the log. It counts at every step and fails if one count is
off. It needs the ``dev`` and ``spark`` extras.
"""
