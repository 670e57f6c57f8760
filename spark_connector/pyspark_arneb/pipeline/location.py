"""A location: where a job finds the log, as the options of the data source.

The rule: a location is one of the two ways to a log. It is checked here, so that a job that cannot
begin says so before Spark is started.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from pyspark_arneb.options import SERVICE_ONLY, ReadOptions, read_options
from pyspark_arneb.pipeline.session import JobFailed


@dataclass(frozen=True, slots=True)
class Location:
    """A data directory, or a broker's HTTP port."""

    path: str | None = None
    url: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    """More options, such as credentials."""
    is_elsewhere: bool = False
    """Paths are on another machine, the server of Spark Connect, so Spark reports what is wrong
    with them."""

    def __post_init__(self) -> None:
        if (self.path is None) == (self.url is None):
            raise JobFailed("expected either a data directory (--path) or a broker (--url)")
        if self.path is not None and not self.is_elsewhere and not _is_directory(self.path):
            raise JobFailed(f"--path: no directory {self.path}")

    @property
    def service_options(self) -> dict[str, str]:
        """The options of the source and sink that lead to the broker."""
        if self.url is None:
            raise JobFailed("--url: is needed, because rows are written through a broker")
        known = {name.lower() for name in SERVICE_ONLY}
        proof = {name: value for name, value in self.options.items() if name.lower() in known}
        return {"service.url": self.url, **proof}

    def read(self, spark: SparkSession, **options: str | None) -> DataFrame:
        """Return the table that these options of the source choose; those that are None are left
        out."""
        return spark.read.format("arneb").options(**self._given(options)).load()

    def read_options(self, **options: str | None) -> ReadOptions:
        """Return the same options, parsed. Raises :class:`.OptionError`."""
        return read_options(self._given(options))

    def _given(self, options: Mapping[str, str | None]) -> dict[str, str]:
        way = {"path": self.path} if self.path is not None else {"service.url": self.url}
        given = {**way, **self.options, **options}
        return {name: value for name, value in given.items() if value is not None}


def _is_directory(path: str) -> bool:
    return Path(path).expanduser().is_dir()
