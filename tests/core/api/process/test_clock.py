"""The wall clock: also a time before 1970, and one that goes on without the system's."""

from arneb_core.api.process.clock import EARLIEST_MS, WallClock

MS = 1_000_000


class Machine:
    def __init__(self, wall_ms: int) -> None:
        self.wall_ms = wall_ms
        self.up_ms = 5_000

    def clock(self) -> WallClock:
        return WallClock(lambda: self.wall_ms * MS, lambda: self.up_ms * MS)


def test_it_shows_the_time_of_day() -> None:
    assert Machine(1_700_000_000_123).clock().now_ms() == 1_700_000_000_123


def test_before_1970_time_passes_all_the_same() -> None:
    machine = Machine(-86_400_000)
    clock = machine.clock()
    assert clock.now_ms() == EARLIEST_MS
    machine.up_ms += 2_500
    assert clock.now_ms() == EARLIEST_MS + 2_500
    machine.wall_ms = 1_700_000_000_000
    assert clock.now_ms() == 1_700_000_000_000, "the set time must count as soon as it is known"


def test_it_is_never_zero_which_means_none() -> None:
    assert Machine(0).clock().now_ms() == EARLIEST_MS
