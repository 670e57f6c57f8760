"""``arneb ctl``: RabbitMQ's command line over the management API.

The rule: options, columns, texts and exit codes are those of ``rabbitmqctl``, which scripts and
test suites know; what has no meaning here is refused with one sentence.
"""
