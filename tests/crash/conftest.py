"""Options of the crash tests, and the repository on the import path."""

import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
if str(REPOSITORY) not in sys.path:
    sys.path.insert(0, str(REPOSITORY))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--kills", type=int, default=20, help="number of SIGKILLs in the crash test")
    parser.addoption(
        "--mixed-kills", type=int, default=3, help="number of SIGKILLs in the mixed crash test"
    )
    parser.addoption(
        "--damaged-kills", type=int, default=6, help="number of starts with a damaged journal"
    )
    parser.addoption(
        "--crash-seed",
        type=int,
        default=None,
        help="the seed of a run of the crash test, to repeat it",
    )
