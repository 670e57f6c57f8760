"""Scenarios for Celery: ``python scenarios.py PART``; a line for each, "ok name" or "FAILED name".

``everyday`` plays all that need no restart of the broker. ``begin`` leaves tasks in every state
behind: waiting, held by a worker that was killed, delayed; ``finish`` sees all of them done.
The application is named by the environment, see :mod:`app`.
"""

import sys
import threading
import time
import traceback
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from itertools import pairwise

from app import DIARY, QUEUE_TYPE, add, app, fail, note, third_time
from celery import chain, group
from worker import PATIENCE_S, Diary, Worker, wait_until

IS_QUORUM = QUEUE_TYPE == "quorum"
LOG = DIARY.with_suffix(".log")
diary = Diary(DIARY)


def results() -> None:
    """Results, errors and groups come back through rpc://."""
    assert add.delay(2, 3).get(timeout=PATIENCE_S) == 5
    many = group(add.s(n, n) for n in range(20)).apply_async()
    assert many.get(timeout=PATIENCE_S) == [2 * n for n in range(20)]
    assert chain(add.s(1, 2), add.s(4), add.s(8)).apply_async().get(timeout=PATIENCE_S) == 15
    try:
        fail.delay("as it was told").get(timeout=PATIENCE_S)
    except ValueError as error:
        assert str(error) == "as it was told"
    else:
        raise AssertionError("the error did not come back")


def retries() -> None:
    """A task that fails is tried again, each time after its countdown."""
    assert third_time.delay("third", 1).get(timeout=PATIENCE_S) == 2
    times = diary.times("third")
    assert len(times) == 3, times
    assert all(later - earlier > 0.9 for earlier, later in pairwise(times))


def delays() -> None:
    """What has a countdown or an ETA is run then, in the order of being due."""
    began = time.time()
    for seconds in (5, 1, 3, 2):
        note.apply_async((f"delayed-{seconds}",), countdown=seconds)
    eta = datetime.now(UTC) + timedelta(seconds=4.5)
    note.apply_async(("delayed-eta",), eta=eta)
    if IS_QUORUM:
        time.sleep(0.5)
        scheduled = app.control.inspect(timeout=2).scheduled()
        assert not any(scheduled.values()), f"delayed by the worker, not the broker: {scheduled}"
    wait_until(lambda: len(diary.names("delayed-")) == 5, "five delayed tasks")
    late = {name: diary.times(name)[0] - began for name in diary.names("delayed-")}
    for seconds in (1, 2, 3, 5):
        assert seconds - 0.05 < late[f"delayed-{seconds}"] < seconds + 5, late
    # Delays in the broker are whole seconds; the worker waits for the rest itself.
    assert 4.4 < late["delayed-eta"] < 10, late


def expired() -> None:
    """A task that nobody could take in time is not run."""
    app.control.cancel_consumer(app.conf.task_default_queue, reply=True)
    gone = note.apply_async(("expired",), expires=1)
    time.sleep(2)
    app.control.add_consumer(app.conf.task_default_queue, reply=True)
    assert note.delay("after-expired").get(timeout=PATIENCE_S)
    assert gone.state in {"PENDING", "REVOKED"}, gone.state
    assert not diary.times("expired")


def urgent_first() -> None:
    """Of what waits, the most urgent is run first."""
    for priority in (0, 3, 9, 5):
        note.apply_async((f"priority-{priority}",), queue="urgent", priority=priority)
    with Worker(app, "urgent", LOG, concurrency=1, queues="urgent"):
        wait_until(lambda: len(diary.names("priority-")) == 4, "four tasks")
    assert diary.names("priority-") == [f"priority-{n}" for n in (9, 5, 3, 0)]


def remote_control() -> None:
    """Workers are asked and told things: statistics, queues, limits, revoked tasks."""
    inspect = app.control.inspect(timeout=3)
    (stats,) = inspect.stats().values()
    assert stats["broker"]["transport"] == "amqp", stats["broker"]
    assert "app.note" in next(iter(inspect.registered().values()))
    (queues,) = inspect.active_queues().values()
    assert app.conf.task_default_queue in [queue["name"] for queue in queues]
    (answer,) = app.control.rate_limit("app.add", "100/s", reply=True, timeout=3)
    assert "ok" in next(iter(answer.values()))
    victim = note.delay("terminated", 30)
    wait_until(lambda: any(app.control.inspect(timeout=1).active().values()), "the long task")
    app.control.revoke(victim.id, terminate=True, signal="SIGKILL")
    wait_until(lambda: not any(inspect.active().values()), "its end")
    assert note.delay("after-revoke").get(timeout=PATIENCE_S)
    assert not diary.times("terminated")


def events() -> None:
    """Who listens hears of every step of a task, and the heartbeats of workers."""
    seen: dict[str, int] = {}
    with app.connection_for_read() as connection:

        def count(event: dict[str, object]) -> None:
            seen[str(event["type"])] = seen.get(str(event["type"]), 0) + 1
            receiver.should_stop = seen.get("task-succeeded", 0) == 5 and "worker-heartbeat" in seen

        receiver = app.events.Receiver(connection, handlers={"*": count})
        sending = threading.Timer(1.0, lambda: [note.delay(f"event-{n}") for n in range(5)])
        sending.start()
        receiver.capture(timeout=PATIENCE_S, wakeup=True)
        sending.join()
    steps = [seen.get(f"task-{step}") for step in ("sent", "received", "started", "succeeded")]
    assert steps == [5, 5, 5, 5], seen


def shared_fairly() -> None:
    """With a prefetch of one a second worker takes what the first has not begun."""
    with Worker(app, "second", LOG, concurrency=2) as second:
        sent = [note.delay(f"fair-{n}", 0.5) for n in range(12)]
        time.sleep(0.3)
        inspect = app.control.inspect(timeout=2)
        active, reserved = inspect.active(), inspect.reserved()
        for name in active:
            held = len(active[name]) + len(reserved[name])
            assert held <= 4, f"{name} holds {held}"
        assert active[second.name], "the second worker got nothing"
        for each in sent:
            each.get(timeout=PATIENCE_S)
    assert sorted(diary.names("fair-")) == sorted(f"fair-{n}" for n in range(12))


def worker_killed() -> None:
    """What a killed worker held is run by the next one; nothing is lost."""
    wanted = {f"killed-{n}" for n in range(60)}
    with Worker(app, "victim", LOG) as victim:
        for name in sorted(wanted):
            note.apply_async((name, 0.05), countdown=1 if name.endswith("7") else None)
        wait_until(lambda: len(diary.names("killed-")) >= 10, "the first tasks")
        victim.kill()
    with Worker(app, "heir", LOG):
        wait_until(lambda: wanted <= set(diary.names("killed-")), "all tasks")


def begin() -> None:
    """Leave tasks behind: some done, some held by a worker that is killed, some delayed."""
    with Worker(app, "victim", LOG) as victim:
        for n in range(120):
            note.apply_async((f"left-{n}", 0.05), countdown=8 if n % 10 == 7 else None)
        wait_until(lambda: len(diary.names("left-")) >= 20, "the first tasks")
        victim.kill()


def finish() -> None:
    """Everything that was left is done."""
    wanted = {f"left-{n}" for n in range(120)}
    with Worker(app, "heir", LOG):
        wait_until(lambda: wanted <= set(diary.names("left-")), "all tasks")


def play(scenario: Callable[[], None]) -> bool:
    try:
        scenario()
    except Exception:
        print(f"FAILED {scenario.__name__}:\n{traceback.format_exc()}", flush=True)
        return False
    print(f"ok {scenario.__name__}", flush=True)
    return True


def everyday() -> bool:
    """All that one worker can be asked to do, then those that bring workers of their own."""
    asked = [results, retries, delays, expired, remote_control, events, shared_fairly]
    alone = [worker_killed] if IS_QUORUM else [worker_killed, urgent_first]
    queue = app.conf.task_default_queue
    with Worker(app, "first", LOG, queues=queue):
        passed = [play(each) for each in asked]
    return all(passed + [play(each) for each in alone])


if __name__ == "__main__":
    parts: dict[str, Callable[[], bool]] = {
        "everyday": everyday,
        "begin": lambda: play(begin),
        "finish": lambda: play(finish),
    }
    sys.exit(0 if parts[sys.argv[1]]() else 1)
