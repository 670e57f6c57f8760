"""A promise that the broker could not keep for lack of a processor does not count as broken; any
other does."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.crash.processor_wait import ProcessorWait, waited_s_of


def looked_at(*looks: tuple[float, float]) -> ProcessorWait:
    """Samples as ``(when, waited by then)``."""
    figures = iter([waited_s for _, waited_s in looks])
    wait = ProcessorWait(lambda: next(figures))
    for now, _ in looks:
        wait.look(now)
    return wait


def test_a_broker_that_never_waits_has_all_the_time() -> None:
    wait = looked_at((0.0, 5.0), (0.25, 5.0), (0.5, 5.0), (0.75, 5.0), (1.0, 5.0))
    assert wait.worked_until(1.0, 0.25) == 0.75
    assert wait.worked_until(1.0, 0.3) == 0.5
    assert repr(wait) == "<ProcessorWait, 0.000 s in 5 looks>"


def test_what_it_waits_in_its_last_moments_counts_for_those_alone() -> None:
    wait = looked_at((0.0, 0.0), (0.25, 0.0), (0.5, 0.0), (0.75, 0.25), (1.0, 0.5))
    assert wait.worked_until(1.0, 0.25) == 0.25
    early = looked_at((0.0, 0.0), (0.25, 0.25), (0.5, 0.5), (0.75, 0.5), (1.0, 0.5))
    assert early.worked_until(1.0, 0.25) == 0.75


def test_one_that_could_not_work_for_so_long_has_promised_nothing() -> None:
    assert looked_at((3.0, 0.0), (4.0, 1.0)).worked_until(4.0, 0.5) == 2.5
    assert looked_at().worked_until(4.0, 0.5) == 3.5


@given(st.lists(st.tuples(st.floats(0.001, 0.1), st.floats(0, 0.1)), min_size=1, max_size=50))
def test_between_what_is_found_and_the_end_it_could_work(
    steps: list[tuple[float, float]],
) -> None:
    now, waited_s, looks = 0.0, 0.0, [(0.0, 0.0)]
    for took_s, part_s in steps:
        now, waited_s = now + took_s, waited_s + part_s
        looks.append((now, waited_s))
    found = looked_at(*looks).worked_until(now, 0.05)
    worked = {at: now - at - (waited_s - by_then) for at, by_then in looks}
    if found in worked:
        assert worked[found] >= 0.05
    assert all(worked[later] < 0.05 for later in worked if later > found)


@pytest.mark.skipif(
    not Path("/proc/self/schedstat").exists(), reason="this kernel does not count what tasks wait"
)
def test_the_kernel_counts_what_processes_wait() -> None:
    """There are more processes than processors, so that each waits for others."""
    burn = "import time\nwhile time.process_time() < 0.3: pass\nprint(flush=True)\ninput()"
    count = 2 * len(os.sched_getaffinity(0))
    burners = [
        subprocess.Popen([sys.executable, "-c", burn], stdin=-1, stdout=-1) for _ in range(count)
    ]
    try:
        for each in burners:
            assert each.stdout is not None
            each.stdout.readline()
        waits = [waited_s_of(each.pid) for each in burners]
    finally:
        for each in burners:
            each.communicate(b"\n")
    assert sum(waits) > 0.1
    assert waited_s_of(burners[0].pid) == 0.0
