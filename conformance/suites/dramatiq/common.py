"""What the tests import from a module that the source distribution leaves out."""

import os
from collections.abc import Callable
from typing import Final

import pika

RABBITMQ_USERNAME: Final = "guest"
RABBITMQ_PASSWORD: Final = "guest"
RABBITMQ_CREDENTIALS: Final = pika.PlainCredentials(RABBITMQ_USERNAME, RABBITMQ_PASSWORD)

# Most of the tests name no port.
pika.connection.Parameters.DEFAULT_PORT = int(os.environ["RABBITMQ_5672_TCP"])


def skip_unless_rabbit_mq(test: Callable[..., None]) -> Callable[..., None]:
    """Skip nothing: there is a broker."""
    return test
