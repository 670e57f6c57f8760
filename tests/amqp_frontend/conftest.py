"""Shared by all AMQP tests: puts the repository on the import path, for their helper modules."""

import sys
from pathlib import Path

REPOSITORY = str(Path(__file__).resolve().parents[2])
if REPOSITORY not in sys.path:
    sys.path.insert(0, REPOSITORY)
