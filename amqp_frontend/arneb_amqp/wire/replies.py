"""Commands that the broker sends, made without pamqp's checks of names.

pamqp's constructors refuse names outside its patterns, which RabbitMQ accepts.
"""

from typing import TypeVar

from pamqp import commands
from pamqp.base import Frame as Command

from arneb_amqp.errors import NO_METHOD, AmqpError

Kind = TypeVar("Kind", bound=Command)


def make(kind: type[Kind], **fields: object) -> Kind:
    """Return a command with these fields; every field of its kind must be given."""
    command = kind.__new__(kind)
    assert set(fields) == set(kind.attributes()), f"fields of {kind.name}"
    for name, value in fields.items():
        setattr(command, name, value)
    return command


def close_channel(error: AmqpError) -> commands.Channel.Close:
    """Return the ``channel.close`` for ``error``."""
    class_id, method_id = error.method or NO_METHOD
    return make(
        commands.Channel.Close,
        reply_code=error.reply_code,
        reply_text=error.reply_text,
        class_id=class_id,
        method_id=method_id,
    )


def close_connection(error: AmqpError) -> commands.Connection.Close:
    """Return the ``connection.close`` for ``error``."""
    class_id, method_id = error.method or NO_METHOD
    return make(
        commands.Connection.Close,
        reply_code=error.reply_code,
        reply_text=error.reply_text,
        class_id=class_id,
        method_id=method_id,
    )
