"""rabbitmq.conf: RabbitMQ's own file, understood.

The rule: what comes of it is what a TOML file would have said; nothing else knows of it.

Read in this order: ``conf`` (the keys), ``values`` (their texts), ``file`` (what has come of them
so far), then the keys that need more than a line: ``tls``, ``vhosts``; and ``ignored``.
"""
