"""Logs in with pika, obeying one command per line; see test_logins.py for the commands."""

import ssl
import sys
from collections.abc import Callable
from typing import Any

import pika
from pika.exceptions import AMQPChannelError, AMQPConnectionError

connection: Any = None


def opened(host: str, port: str, **more: Any) -> str:
    global connection
    parameters = pika.ConnectionParameters(
        host, int(port), heartbeat=0, blocked_connection_timeout=30, **more
    )
    connection = pika.BlockingConnection(parameters)
    return "in"


def external(host: str, port: str, authority: str, certificate: str, key: str, *_: str) -> str:
    context = ssl.create_default_context(cafile=authority)
    if certificate != "-":
        context.load_cert_chain(certificate, key)
    secured = pika.SSLOptions(context, "127.0.0.1")
    credentials = pika.credentials.ExternalCredentials()
    return opened(host, port, ssl_options=secured, credentials=credentials)


def plain(host: str, port: str, user: str, password: str) -> str:
    return opened(host, port, credentials=pika.PlainCredentials(user, password))


def publish(user: str, queue: str) -> str:
    channel = connection.channel()
    channel.queue_declare(queue)
    channel.confirm_delivery()
    channel.basic_publish("", queue, b"x", pika.BasicProperties(user_id=user))
    channel.close()
    return "confirmed"


def renew(secret: str) -> str:
    connection.update_secret(secret, "it was time")
    return "renewed"


def close() -> str:
    if connection is not None and connection.is_open:
        connection.close()
    return "closed"


COMMANDS: dict[str, Callable[..., str]] = {
    each.__name__: each for each in (external, plain, publish, renew, close)
}

for line in sys.stdin:
    name, *arguments = line.rstrip("\n").split("\t")
    try:
        outcome = COMMANDS[name](*arguments)
    except (AMQPConnectionError, AMQPChannelError) as error:
        outcome = f"{type(error).__name__} {error!r}"
        if hasattr(error, "reply_text"):
            outcome = f"{error.reply_code} {error.reply_text}"
    print(outcome.replace("\n", " "), flush=True)
