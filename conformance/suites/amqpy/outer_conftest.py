"""Makes the broker that the environment names the default of ``amqpy.Connection``, which the tests
call without an address."""

import os

from amqpy import connection

made = connection.Connection.__init__
host, port, *others = made.__defaults__
assert (host, port) == ("localhost", 5672)
made.__defaults__ = (os.environ["RABBITMQ_HOST"], int(os.environ["RABBITMQ_5672_TCP"]), *others)
