"""rabbitmq.conf: reads RabbitMQ's own configuration file.

The rule: the result is what a TOML file would contain; no other package knows of rabbitmq.conf.

Read in this order: ``conf`` (the keys), ``values`` (parsing values), ``file`` (the settings so
far), then the keys that need more than a line: ``tls``, ``vhosts``; and ``ignored``.
"""
