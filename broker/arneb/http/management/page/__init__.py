"""What the management page asks for besides RabbitMQ's management API, below ``/api/page``.

The rule: these are routes like all others, each with its rule in the same table.
"""
