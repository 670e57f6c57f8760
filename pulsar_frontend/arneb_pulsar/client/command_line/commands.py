"""The command line: sends, consumes and reads, at Arneb and Apache Pulsar alike.

The rule: only messages go to standard output; everything else goes to standard error. Ctrl-C ends a
command as the end of its input does: accepted messages are stored first. The program is
``arneb client`` in the distribution with a broker, and ``arneb-client`` in the one without.
"""

import os
import signal
import sys
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final

import anyio
import click

from arneb_pulsar.client import (
    EARLIEST,
    LATEST,
    Client,
    ClientOptions,
    Compression,
    ConsumerOptions,
    InitialPosition,
    MessageId,
    ProducerOptions,
    SubscriptionType,
    TlsOptions,
    connect,
)
from arneb_pulsar.client.command_line.formats import (
    DEFAULT,
    Format,
    Line,
    line_of,
    line_of_json,
    parse_start,
)
from arneb_pulsar.client.command_line.input import inputs
from arneb_pulsar.client.command_line.output import Progress, counted, print_messages, say
from arneb_pulsar.client.connecting import wall_ms
from arneb_pulsar.client.connection.authentication import (
    Authentication,
    BasicAuthentication,
    NoAuthentication,
    TokenAuthentication,
)
from arneb_pulsar.client.errors import PulsarError, QueueFull
from arneb_pulsar.client.producer.producing import Producing
from arneb_pulsar.names import NON_PERSISTENT

URL: Final = "pulsar://127.0.0.1:6650"
FAILED_STATUS: Final = 1
USAGE_STATUS: Final = 2
INTERRUPTED_STATUS: Final = 128 + signal.SIGINT


class Refused(click.ClickException):
    """The command cannot be carried out; the message is one line for the user."""

    exit_code = USAGE_STATUS


class Service:
    """How to reach a service: the options that all commands share."""

    def __init__(self, url: str, options: ClientOptions) -> None:
        self.url = url
        self.options = options

    def __repr__(self) -> str:
        return f"<Service at {self.url}>"

    def play(self, command: Callable[[Client], Awaitable[None]]) -> None:
        """Run a command with a client until it, or its user, ends it."""

        async def run() -> None:
            async with connect(self.url, self.options) as client:
                await _until_interrupted(partial(command, client))

        try:
            anyio.run(run)
        except PulsarError as error:
            raise Refused(str(error)) from error
        except BrokenPipeError:
            # The reader of standard output has closed it.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


class Examples(click.Group):
    """A command whose help names the program that it is part of."""

    def format_help_text(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """See :class:`click.Command`."""
        text = (self.help or "").replace("arneb client", ctx.command_path)
        click.Command(None, help=text).format_help_text(ctx, formatter)


@click.group(
    cls=Examples,
    short_help="Send, consume and read from the command line.",
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.option("-b", "--url", envvar="PULSAR_SERVICE_URL", default=URL, show_default=True,
              help="Where the service is; or PULSAR_SERVICE_URL.")  # fmt: skip
@click.option("--token", envvar="PULSAR_TOKEN", help="A JSON web token, or file:PATH.")
@click.option("--user", metavar="NAME:PASSWORD", help="Basic authentication.")
@click.option("--trust", metavar="FILE", help="CA certificates to verify the broker by.")
@click.option("--certificate", metavar="FILE", help="The client's own, for mutual TLS.")
@click.option("--key", metavar="FILE", help="The key of that certificate.")
@click.option("--timeout", "timeout_s", default=30.0, show_default=True, help="In seconds.")
@click.pass_context
def client(
    context: click.Context,
    url: str,
    token: str | None,
    user: str | None,
    trust: str | None,
    certificate: str | None,
    key: str | None,
    timeout_s: float,
) -> None:
    """Send, consume and read messages of any Pulsar service: Arneb's, or Apache Pulsar's.

    \b
    seq 10 | arneb client produce numbers
    arneb client read numbers -o beginning -e
    arneb client consume orders -s shop -t shared -J | jq .value
    """
    authentication: Authentication = NoAuthentication()
    if token is not None:
        path = token.removeprefix("file:")
        authentication = TokenAuthentication(Path(path) if path != token else token)
    elif user is not None:
        name, _, password = user.partition(":")
        authentication = BasicAuthentication(name, password)
    tls = TlsOptions(trust, certificate, key)
    try:
        options = ClientOptions(authentication, tls, operation_timeout_s=timeout_s)
    except PulsarError as error:
        raise Refused(str(error)) from error
    context.obj = Service(url, options)


@client.command()
@click.argument("topic")
@click.argument("files", nargs=-1, type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("-K", "key_delimiter", default="", help="Separates key and value in a line.")
@click.option("-k", "key", help="The key of messages that have none.")
@click.option("-H", "headers", multiple=True, metavar="NAME=VALUE", help="A property of each.")
@click.option("-J", "--json", "is_json", is_flag=True, help="Lines are JSON, as consume -J prints.")
@click.option("-z", "compression", type=click.Choice(["lz4", "zlib", "zstd", "snappy"]),
              help="Compress the messages.")  # fmt: skip
@click.option("-l", "line_by_line", is_flag=True, help="Send each line of FILES as a message.")
@click.option("-q", "quiet", is_flag=True, help="Do not print a summary.")
@click.pass_obj
def produce(
    service: Service,
    topic: str,
    files: tuple[Path, ...],
    key_delimiter: str,
    key: str | None,
    headers: tuple[str, ...],
    is_json: bool,
    compression: str | None,
    line_by_line: bool,
    quiet: bool,
) -> None:
    """Send each line of standard input to TOPIC, or each of FILES as one message.

    Ends when all are stored. Exit status 1: some could not be.
    """
    for each in headers:
        if "=" not in each:
            raise Refused(f"expected NAME=VALUE, got -H {each}")
    properties = dict(each.partition("=")[::2] for each in headers)

    def parsed(data: bytes) -> Line:
        return line_of_json(data) if is_json else line_of(data, key_delimiter)

    def completed(line: Line) -> Line:
        own = key if line.key is None else line.key
        return replace(line, key=own, properties={**properties, **(line.properties or {})})

    async def run(made: Client) -> None:
        failures: list[Exception] = []
        chosen = Compression[compression.upper()] if compression else Compression.NONE
        options = ProducerOptions(pending_max=10_000)
        producer = await made.create_producer(topic, options, compression=chosen)
        count, began, progress = 0, time.monotonic(), Progress(quiet)
        try:
            async for data in inputs(files, line_by_line):
                line = Line(data) if files and not line_by_line else parsed(data)
                await _send(producer, completed(line), failures)
                count += 1
                progress.show(count)
        finally:
            # After an interrupt or an invalid message, the messages before it are still sent.
            with anyio.CancelScope(shield=True):
                await producer.close()
            progress.end()
            if not quiet:
                stored = counted(count - len(failures))
                say(f"{stored} stored in {time.monotonic() - began:.2f} s")
        if failures:
            say(f"{len(failures)} were not, the first: {failures[0]}")
            raise SystemExit(FAILED_STATUS)

    service.play(run)


async def _send(producer: Producing[bytes], line: Line, failures: list[Exception]) -> None:
    """Queue a line to be sent, once there is room; if it fails later, add the error to
    ``failures``."""

    def done(_found: MessageId | None, error: Exception | None) -> None:
        if error is not None:
            failures.append(error)

    while True:
        try:
            producer.send_nowait(
                line.value,
                key=line.key,
                ordering_key=line.ordering_key,
                properties=line.properties,
                event_time_ms=line.event_time_ms,
                callback=done,
            )
            return
        except QueueFull:
            await producer.wait_for_room()


def _format(_context: click.Context, _option: click.Parameter, text: str) -> Format:
    """Parse the format before any broker is asked, so that an invalid one is refused first."""
    try:
        return Format(text)
    except PulsarError as error:
        raise Refused(str(error)) from error


def _outputs(command: Any) -> Any:
    """Add the options of commands that print messages."""
    for option in (
        click.option("-o", "start", help="beginning, end, @TIME, 15m (ago) or an id as %o prints."),
        click.option("-c", "count", type=click.IntRange(min=1), help="End after this many."),
        click.option("-e", "ends", is_flag=True, help="End when there are no more messages."),
        click.option(
            "-f",
            "form",
            default=DEFAULT,
            show_default=True,
            callback=_format,
            help="How to print each message: see consume --help.",
        ),
        click.option("-J", "--json", "is_json", is_flag=True, help="One JSON object a line."),
        click.option("-q", "quiet", is_flag=True, help="Do not print a summary."),
    ):
        command = option(command)
    return command


@client.command()
@click.argument("topics", nargs=-1, required=True)
@click.option("-s", "subscription", default="arneb-client", show_default=True,
              help="The subscription.")  # fmt: skip
@click.option("-t", "kind", default="shared", show_default=True, help="Its type.",
              type=click.Choice(["exclusive", "shared", "failover", "key_shared"]))  # fmt: skip
@click.option("--peek", is_flag=True, help="Acknowledge nothing.")
@click.option("--pattern", is_flag=True, help="TOPICS is one tenant/namespace/expression.")
@_outputs
@click.pass_obj
def consume(
    service: Service,
    /,
    topics: tuple[str, ...],
    subscription: str,
    kind: str,
    peek: bool,
    pattern: bool,
    **output: Any,
) -> None:
    """Print the messages of TOPICS as a consumer of a subscription, and acknowledge them.

    -o moves an existing subscription backwards or forwards.

    \b
    -f: %s value  %S its bytes  %k key  %K its bytes  %t topic  %p partition  %o id
        %T publish time  %e event time  %h properties  %n redeliveries  \\n \\t \\xHH
    """

    async def run(made: Client) -> None:
        start = _start(output["start"])
        position = InitialPosition.LATEST if start == LATEST else InitialPosition.EARLIEST
        # Without it, -c could not end within a batch.
        options = ConsumerOptions(
            SubscriptionType[kind.upper()],
            initial_position=position,
            batch_index_acks=True,
            start_inclusive=True,
        )
        if pattern:
            consumer = await made.subscribe_pattern(topics[0], subscription, options)
        else:
            consumer = await made.subscribe(topics, subscription, options)
        async with consumer:
            if start is not None:
                await consumer.seek(start)
            done = None if peek else consumer.acknowledge
            await print_messages(consumer.receive, consumer.has_message_available, done, **output)

    service.play(run)


@client.command()
@click.argument("topic")
@_outputs
@click.pass_obj
def read(service: Service, /, topic: str, **output: Any) -> None:
    """Print the messages of TOPIC without a subscription, from its beginning or from -o.

    A topic that does not exist is not created. For -f, see consume --help.
    """

    async def run(made: Client) -> None:
        start = _start(output["start"] or "beginning")
        # A non-persistent topic exists only while somebody uses it.
        is_kept = not topic.startswith(f"{NON_PERSISTENT}://")
        options = ConsumerOptions(start_inclusive=True, create_topic=not is_kept)
        begin = start if isinstance(start, MessageId) else EARLIEST
        async with await made.create_reader(topic, begin, options) as reader:
            if isinstance(start, int):
                await reader.seek(start)
            await print_messages(reader.read, reader.has_message_available, None, **output)

    service.play(run)


@client.command()
@click.option("-c", "count", default=4, show_default=True, type=click.IntRange(min=1),
              help="How often.")  # fmt: skip
@click.option("-i", "interval_s", default=1.0, show_default=True,
              help="Seconds between two pings.")  # fmt: skip
@click.pass_obj
def ping(service: Service, count: int, interval_s: float) -> None:
    """Ping a broker, and print how long each answer took."""

    async def run(made: Client) -> None:
        times: list[float] = []
        for number in range(count):
            if number:
                await anyio.sleep(interval_s)
            found = await made.ping()
            times.append(found.seconds)
            click.echo(f"{found.broker} ({found.version}): {found.seconds * 1_000:.2f} ms")
        least, most, mean = min(times), max(times), sum(times) / len(times)
        click.echo(
            f"{count} answer{'' if count == 1 else 's'}, least {least * 1_000:.2f}, "
            f"mean {mean * 1_000:.2f}, most {most * 1_000:.2f} ms"
        )

    service.play(run)


def _start(text: str | None) -> MessageId | int | None:
    return None if text is None else parse_start(text, wall_ms())


async def _until_interrupted(command: Callable[[], Awaitable[None]]) -> None:
    """Run the command; Ctrl-C and SIGTERM end it, with the status of an interrupt."""
    raised: BaseException | None = None
    interrupted = False
    async with anyio.create_task_group() as tasks:

        async def watch() -> None:
            nonlocal interrupted
            with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
                async for _ in signals:
                    interrupted = True
                    tasks.cancel_scope.cancel()
                    return

        tasks.start_soon(watch)
        try:
            await command()
        except (Exception, SystemExit) as error:
            # Raised outside the task group, which would wrap it in an exception group.
            raised = error
        tasks.cancel_scope.cancel()
    if raised is not None:
        raise raised
    if interrupted:
        raise SystemExit(INTERRUPTED_STATUS)
