"""What may be set while the broker runs, over HTTP: parameters, policies, limits, shovels.

The rule: policies of operators and limits of vhosts are parameters too, as in RabbitMQ, and each is
kept in one place.
"""
