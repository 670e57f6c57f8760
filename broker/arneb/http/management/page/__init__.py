"""The management page's own routes, below ``/api/page``, beside RabbitMQ's management API.

The rule: they are routes like all others, each with its rule in the same table.
"""
