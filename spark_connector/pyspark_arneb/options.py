"""The options of one read, checked once.

The rule: every option that can be wrong is refused here, by name, before anything is
read; the rest of the package meets only the frozen :class:`ReadOptions`. Kafka's and
pulsar-spark's names are accepted beside our own, so that existing jobs run unchanged.
"""

import json
import os
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from difflib import get_close_matches
from enum import Enum
from typing import Final, TypeVar
from urllib.parse import unquote, urlsplit

from arneb_core.api.position import AFTER_ALL, Position, position
from pyspark_arneb.log.block_source import Location
from pyspark_arneb.log.directory import Directory
from pyspark_arneb.log.remote import Remote
from pyspark_arneb.log.topics import TopicSelection, full_name
from pyspark_arneb.target import LakeError, Target
