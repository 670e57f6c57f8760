"""``arneb serve``: runs one broker in the foreground."""

import logging
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from arneb.cli import USAGE_STATUS, Refused, silence_output
from arneb.logs.log_lines import ANNOUNCER, announcer, set_log_level, set_up_logging
from arneb.logs.visible import visible
from arneb.settings.config import Config, ConfigInvalid, load_config
from arneb.settings.process import LogFormat, LogLevel
from arneb.settings.tls import NO_FILE

if TYPE_CHECKING:
    from arneb.logs.audit_log import AuditLog
    from arneb.settings.reloading import Reloading

LISTEN: Final = "HOST:PORT|off"


@click.command(short_help="Run a broker.")
@click.option("--config", "file", type=click.Path(path_type=Path), metavar="FILE.toml",
              help="Settings file; the options below override it.")  # fmt: skip
@click.option("--rabbitmq-conf", type=click.Path(path_type=Path), metavar="FILE|DIR",
              help="Settings in RabbitMQ's format; ignored ones are reported.")  # fmt: skip
@click.option("--data-dir", type=click.Path(path_type=Path), metavar="DIR",
              help="Where the log is kept.  [default: ./arneb-data]")  # fmt: skip
@click.option("--amqp", metavar=LISTEN, help="For RabbitMQ clients.  [default: 127.0.0.1:5672]")
@click.option("--pulsar", metavar=LISTEN, help="For Pulsar clients.  [default: 127.0.0.1:6650]")
@click.option(
    "--http", metavar=LISTEN, help="Management, health, metrics.  [default: 127.0.0.1:15672]"
)
@click.option("--http-pulsar", metavar=LISTEN,
              help="Pulsar's admin API.  [default: 127.0.0.1:8080]")  # fmt: skip
@click.option("--log-level", type=click.Choice([each.value for each in LogLevel]),
              help="Least severe level that is logged.  [default: warning]")  # fmt: skip
@click.option("--log-format", type=click.Choice([each.value for each in LogFormat]),
              help="Lines of text, or one JSON object a line.  [default: text]")  # fmt: skip
@click.option("--watch-turns", is_flag=True,
              help="Measure long turns of the event loop; see /api/turns.")  # fmt: skip
def serve(
    file: Path | None,
    rabbitmq_conf: Path | None,
    data_dir: Path | None,
    amqp: str | None,
    pulsar: str | None,
    http: str | None,
    http_pulsar: str | None,
    log_level: str | None,
    log_format: str | None,
    watch_turns: bool,
) -> None:
    """Run a broker until Ctrl-C or SIGTERM.

    It prints a line for each listener that is ready. Port 0 takes any free port, which that line
    names.
    """
    load = partial(
        load_config,
        file,
        data_dir=data_dir,
        amqp=amqp,
        pulsar=pulsar,
        http=http,
        http_pulsar=http_pulsar,
        log_level=log_level,
        log_format=log_format,
        watch_turns=watch_turns,
        rabbitmq_conf=rabbitmq_conf,
        environment=dict(os.environ),
    )
    notes: list[str] = []
    try:
        config = load(tell=notes.append)
    except ConfigInvalid as error:
        raise Refused(str(error)) from error

    # Imported only once the settings are valid: these imports are most of the start-up.
    import trio

    from arneb.listening.listeners import BindFailed
    from arneb.logs.audit_log import AuditLog
    from arneb.node.process import run_broker
    from arneb.runtime.ending import BROKEN_OFF
    from arneb_core.api.errors import EngineBroken, EngineFenced, StoreDamaged, StoreUnusable

    form = config.log.format
    log_file = config.log.file if config.log.file != NO_FILE else None
    try:
        set_up_logging(config.log.level, form, log_file)
        audit = AuditLog(config.audit.file)
    except OSError as error:
        raise Refused(f"cannot write {error.filename}: {error.strerror}") from error
    say = announcer(form, _say)
    for note in notes:
        say(note)
    try:
        trio.run(run_broker, config, say, _reloading(load, audit), audit)
    except StoreDamaged as error:
        directory = config.data_dir
        hint = (
            f"`arneb check {directory}` tells more, `arneb salvage {directory} OUT` saves the rest"
            if (directory / "data.mdb").exists()
            else "restore a backup if it is gone"
        )
        raise _ended(f"{error}; {hint}", USAGE_STATUS, form) from error
    except (BindFailed, StoreUnusable) as error:
        raise _ended(str(error), USAGE_STATUS, form) from error
    except (EngineBroken, EngineFenced) as error:
        raise _ended(str(error), BROKEN_OFF, form) from error


def _reloading(load: Callable[[], Config], audit: "AuditLog") -> "Reloading":
    from arneb.settings.reloading import Reloading

    reloading = Reloading(load)

    async def follow_file(config: Config) -> None:
        audit.reopen()

    async def follow_level(config: Config) -> None:
        set_log_level(config.log.level)

    reloading.add("the log's level", follow_level, "log.level")
    reloading.add("the audit log", follow_file)
    return reloading


def _ended(why: str, status: int, form: LogFormat) -> BaseException:
    """Return the exception that ends a broker that cannot start or continue, reported in one
    line."""
    if form is LogFormat.JSON:
        logging.getLogger(ANNOUNCER).critical("%s", why)
        return SystemExit(status)
    if status == USAGE_STATUS:
        return Refused(why)
    click.echo(f"arneb: {visible(why)}", err=True)
    return SystemExit(status)


def _say(line: str) -> None:
    # A broker outlives the reader of its first lines (``arneb serve | head -1``).
    try:
        click.echo(line)
    except BrokenPipeError:
        silence_output()
