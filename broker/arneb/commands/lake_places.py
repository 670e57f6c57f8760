"""Where the commands on the sealed tier find it, and the log that belongs to it.

The rule: a log is a directory or the URL of a broker's HTTP port, a tier what the connector knows
as a target; whatever is wrong with either is one line for the user.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final

from arneb.cli import Refused

if TYPE_CHECKING:
    from pyspark_arneb.log.block_source import Location
    from pyspark_arneb.target import Target

NEEDED: Final = ("pyarrow", "deltalake", "duckdb")


def log_location(text: str) -> "Location":
    """The log in a directory."""
    from pyspark_arneb.log.directory import Directory

    if "://" in text:
        raise Refused(f"expected a data directory, got {text}")
    return Directory(text)


def lake_target(text: str, storage: Sequence[str] = ()) -> "Target":
    """The tier at ``text``; ``storage`` are options as KEY=VALUE."""
    missing = [name for name in NEEDED if find_spec(name) is None]
    if missing:
        raise Refused(f"{missing[0]} is not installed: pip install 'arneb[lake]'")
    from pyspark_arneb.target import LakeError, Target

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
    """What the log, the tier or the file system refuses is one line."""
    from arneb_core.api.errors import StoreFailed, StoreUnusable
    from pyspark_arneb.errors import CorruptionError, DataLossError
    from pyspark_arneb.option_table import OptionError
    from pyspark_arneb.target import LakeError

    try:
        yield
    except OptionError as error:
        raise Refused(error.problem) from error
    except (CorruptionError, DataLossError, LakeError, StoreUnusable, StoreFailed) as error:
        raise Refused(str(error)) from error
    except OSError as error:
        raise Refused(next(iter(str(error).splitlines()), "")) from error
