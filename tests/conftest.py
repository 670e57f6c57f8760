"""What every test may rely on: Hypothesis profiles, and ``async def`` tests under trio.

An ``async def`` test runs in :func:`trio.run` on a clock that jumps ahead when all tasks
wait, so that no test sleeps; one marked ``real_time`` keeps the real clock.

Stores of tests are in memory where there is room for them: most of what the tests of the core take
on a disk is waiting for thousands of flushes that nobody will ever need. ``TMPDIR=/tmp`` has them
on a disk.
"""

import inspect
import os
import shutil
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Final

import hypothesis
import pytest
import trio
import trio.testing
from hypothesis import Phase
from tests import side_by_side
from tests.compiled_run import examples_of, is_left_out, not_compiled
from xdist.remote import Producer

# A slow machine is no failure, and a failing example must be repeatable from the log.
hypothesis.settings.register_profile("default", deadline=None, print_blob=True)
hypothesis.settings.register_profile("quick", deadline=None, max_examples=10)
hypothesis.settings.register_profile(
    "thorough", deadline=None, print_blob=True, max_examples=2_000, stateful_step_count=200
)
# What decides about a change must not depend on luck: the same examples every time. To find new
# ones is for those who have the time to look at them: `make hunt`.
hypothesis.settings.register_profile("ci", deadline=None, print_blob=True, derandomize=True)
# For who only wants to know that a test fails: the smallest example takes most of the time.
hypothesis.settings.register_profile(
    "unshrunk",
    deadline=None,
    derandomize=True,
    phases=set(Phase) - {Phase.shrink, Phase.explain},
)
hypothesis.settings.load_profile("default")


ROOT: Final = Path(__file__).resolve().parents[1]
SOURCE_ROOTS: Final = ("core", "amqp_frontend")
"""Where compiled modules may stand."""

MEMORY: Final = Path("/dev/shm")
MEMORY_FREE_BYTES_MIN: Final = 8 << 30
"""What a whole run makes before it is over, and as much again for another beside it."""


def _refuse_stale() -> None:
    """What was compiled beside a source that was changed since would be tested in its place."""
    for root in SOURCE_ROOTS:
        for built in (ROOT / root).rglob("*.so"):
            source = built.with_name(built.name.partition(".")[0] + ".py")
            if source.exists() and source.stat().st_mtime > built.stat().st_mtime:
                raise pytest.UsageError(f"{source} is newer than {built.name}: run `make pure`")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--on-compiled", action="store_true", help="tests for compiled modules only")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out what has nothing to do with compiled modules, if only those are tested."""
    return True if config.getoption("--on-compiled") and is_left_out(collection_path) else None


def pytest_collectstart(collector: pytest.Collector) -> None:
    """Before a file is imported, and its tests take what the profile says: fewer examples, if it
    runs on compiled modules and those are not what it is about."""
    if collector.config.getoption("--on-compiled") and isinstance(collector, pytest.Module):
        name = collector.config.getoption("--hypothesis-profile") or "default"
        asked = hypothesis.settings.get_profile(name)
        count = examples_of(collector.path, asked.max_examples)
        hypothesis.settings.register_profile("on compiled", asked, max_examples=count)
        hypothesis.settings.load_profile("on compiled")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "real_time: an async test that needs the real clock")
    config.addinivalue_line("markers", "alone: a test that measures: no other runs meanwhile")
    is_free = MEMORY.is_dir() and shutil.disk_usage(MEMORY).free >= MEMORY_FREE_BYTES_MIN
    if is_free and "TMPDIR" not in os.environ:
        # For the processes that tests start as well.
        os.environ["TMPDIR"] = tempfile.tempdir = str(MEMORY)
    _refuse_stale()
    if config.getoption("--on-compiled") and (missing := not_compiled()):
        raise pytest.UsageError(f"not compiled: {', '.join(missing)}; run `make compiled`")
    side_by_side.make_locks(config)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> side_by_side.Scheduler:
    return side_by_side.Scheduler(config, log)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if side_by_side.is_divided(config):
        side_by_side.put_in_order(items)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Let no test run beside one that measures."""
    if not side_by_side.is_divided(item.config):
        return (yield)
    with side_by_side.beside_others(item):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Remove what the examples of a test made in directories of their own, unless it failed."""
    factory = getattr(item, "funcargs", {}).get("tmp_path_factory")
    if factory is None:
        return (yield)
    base = factory.getbasetemp()
    before = set(base.iterdir())
    result = yield
    for made in set(base.iterdir()) - before:
        shutil.rmtree(made, ignore_errors=True)
    return result


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run an ``async def`` test to its end under trio."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    names = pyfuncitem._fixtureinfo.argnames
    arguments = {name: pyfuncitem.funcargs[name] for name in names}
    real = pyfuncitem.get_closest_marker("real_time") is not None
    clock = None if real else trio.testing.MockClock(autojump_threshold=0)
    trio.run(partial(pyfuncitem.obj, **arguments), clock=clock)
    return True
