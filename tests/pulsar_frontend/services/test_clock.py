"""The time of day as statistics show it."""

from arneb_pulsar.services.clock import Clock


def test_the_time_of_day_is_in_milliseconds() -> None:
    assert Clock(wall_ms=lambda: 0).iso() == "1970-01-01T00:00:00.000Z"
    assert Clock(wall_ms=lambda: 1_700_000_000_123).iso() == "2023-11-14T22:13:20.123Z"
