"""Lake places: the arguments that name the sealed tier and its log.

The rule: a log is a directory or the URL of a broker's HTTP port, a tier is one of the connector's
targets; an error in either is one line for the user.
"""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote, urlsplit, urlunsplit

from arneb.cli import Refused
from arneb.commands.asking import TOKEN

if TYPE_CHECKING:
    from pyspark_arneb.log.block_source import Location
    from pyspark_arneb.service.connection import Address
    from pyspark_arneb.target import Target

NEEDED: Final = ("pyarrow", "deltalake", "duckdb")


def log_location(text: str) -> "Location":
    """Return the log in a directory, or that of the broker at a URL."""
    from pyspark_arneb.log.directory import Directory
    from pyspark_arneb.log.remote import Remote

    return Remote(broker_address(text)) if is_broker(text) else Directory(text)


def is_broker(text: str) -> bool:
    """Whether the log is named by a broker's URL, and not by a directory."""
    return "://" in text


def broker_address(text: str) -> "Address":
    """Return the address of the broker at ``http://[USER:PASSWORD@]HOST:PORT``. Without a user, a
    token is taken from the environment."""
    from pyspark_arneb.service.connection import Address

    try:
        parts = urlsplit(text)
        base_url = urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))
        return Address(
            base_url,
            unquote(parts.username or ""),
            unquote(parts.password or ""),
            "" if parts.username else os.environ.get(TOKEN, ""),
        )
    except ValueError as error:
        raise Refused(str(error)) from error


def lake_target(text: str, storage: Sequence[str] = ()) -> "Target":
    """Return the tier at ``text``; ``storage`` are options as KEY=VALUE."""
    missing = [name for name in NEEDED if find_spec(name) is None]
    if missing:
        raise Refused(f"{missing[0]} is not installed: pip install 'arneb[lake]'")
    from pyspark_arneb.target import LakeError, Target

    # delta-rs raises its errors; its log of attempts is for users who set RUST_LOG.
    os.environ.setdefault("RUST_LOG", "error")
    options: dict[str, str] = {}
    for each in storage:
        name, equals, value = each.partition("=")
        if not equals:
            raise Refused(f"--storage: expected KEY=VALUE, got {each}")
        options[name] = value
    try:
        return Target.of(text, options)
    except LakeError as error:
        raise Refused(str(error)) from error


@contextmanager
def refusing() -> Iterator[None]:
    """Turn errors of the log, the tier and the file system into one line for the user."""
    from arneb_core.api.errors import StoreFailed, StoreUnusable
    from pyspark_arneb.errors import CorruptionError, DataLossError
    from pyspark_arneb.option_table import OptionError
    from pyspark_arneb.target import LakeError, causes

    try:
        yield
    except OptionError as error:
        raise Refused(error.problem) from error
    except (CorruptionError, DataLossError, LakeError, StoreUnusable, StoreFailed) as error:
        raise Refused(str(error)) from error
    except OSError as error:
        raise Refused(causes(error)) from error
