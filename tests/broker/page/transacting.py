"""A transaction of Pulsar's that is open, with one message in it."""

from collections.abc import Iterator
from contextlib import contextmanager

import trio

from arneb_pulsar.client import connect
