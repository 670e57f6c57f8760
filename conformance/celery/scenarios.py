"""Scenarios for Celery: ``python scenarios.py PART`` prints a line for each, "ok name" or "FAILED
name".

``everyday`` runs all that need no restart of the broker. ``begin`` leaves tasks behind in every
state: waiting, held by a killed worker, delayed; ``finish`` checks that all of them get done.
``outlive`` keeps a worker running while somebody restarts the broker. The restart may begin when
there is a file with the suffix ``.begun``, and is announced by one with the suffix ``.restarted``.
The environment configures the application, see :mod:`app`.
"""

import sys
import time
import traceback
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from itertools import pairwise

from app import DIARY, QUEUE_TYPE, add, app, fail, note, third_time
from celery import chain, group
from worker import ANSWER_S, PATIENCE_S, Diary, Worker, wait_until

IS_QUORUM = QUEUE_TYPE == "quorum"
LOG = DIARY.with_suffix(".log")
diary = Diary(DIARY)
inspect = app.control.inspect(timeout=ANSWER_S, limit=1)
both = app.control.inspect(timeout=ANSWER_S, limit=2)


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
    """A failed task is retried, each time after its countdown."""
    assert third_time.delay("third", 1).get(timeout=PATIENCE_S) == 2
    times = diary.times("third")
    assert len(times) == 3, times
    assert all(later - earlier > 0.9 for earlier, later in pairwise(times))


def delays() -> None:
    """Tasks with a countdown or an ETA run when they are due, and in that order."""
    began = time.time()
    for seconds in (5, 1, 3, 2):
        note.apply_async((f"delayed-{seconds}",), countdown=seconds)
    eta = datetime.now(UTC) + timedelta(seconds=4.5)
    note.apply_async(("delayed-eta",), eta=eta)
    if IS_QUORUM:
        time.sleep(0.5)
        (scheduled,) = wait_until(inspect.scheduled, "an answer").values()
        # The broker delays for the whole seconds until the ETA, and the worker for the rest.
        held = [each for each in scheduled if "delayed-eta" not in each["request"]["args"]]
        assert not held, f"delayed by the worker, not the broker: {held}"
    wait_until(lambda: len(diary.names("delayed-")) == 5, "five delayed tasks")
    late = {name: diary.times(name)[0] - began for name in diary.names("delayed-")}
    for seconds in (1, 2, 3, 5):
        assert seconds - 0.05 < late[f"delayed-{seconds}"] < seconds + 30, late
    # The broker delays for whole seconds; the worker waits for the rest itself.
    assert 4.4 < late["delayed-eta"] < 35, late


def answers_to(what: str, *words: object) -> list[object]:
    """Send the worker a command; the result is its answers."""
    tell = getattr(app.control, what)
    answers: list[object] = tell(*words, reply=True, timeout=ANSWER_S, limit=1)
    return answers


def consumed() -> set[str]:
    """The queues that the worker is consuming now."""
    (queues,) = wait_until(inspect.active_queues, "queues").values()
    return {queue["name"] for queue in queues}


def expired() -> None:
    """A task that nobody could take before it expired is not run."""
    queue = app.conf.task_default_queue
    wait_until(lambda: answers_to("cancel_consumer", queue), "an answer")
    # The worker answers before it cancels its consumer.
    wait_until(lambda: queue not in consumed(), "the end of its consumer")
    gone = note.apply_async(("expired",), expires=1)
    time.sleep(2)
    wait_until(lambda: answers_to("add_consumer", queue), "a consumer")
    assert note.delay("after-expired").get(timeout=PATIENCE_S)
    assert gone.state in {"PENDING", "REVOKED"}, gone.state
    assert not diary.times("expired")


def urgent_first() -> None:
    """Of the waiting tasks the most urgent runs first."""
    for priority in (0, 3, 9, 5):
        note.apply_async((f"priority-{priority}",), queue="urgent", priority=priority)
    with Worker(app, "urgent", LOG, concurrency=1, queues="urgent"):
        wait_until(lambda: len(diary.names("priority-")) == 4, "four tasks")
    assert diary.names("priority-") == [f"priority-{n}" for n in (9, 5, 3, 0)]


def remote_control() -> None:
    """Workers answer queries and obey commands: statistics, queues, rate limits, revoked tasks."""
    (stats,) = wait_until(inspect.stats, "statistics").values()
    assert stats["broker"]["transport"] == "amqp", stats["broker"]
    assert "app.note" in next(iter(wait_until(inspect.registered, "tasks").values()))
    assert app.conf.task_default_queue in consumed()
    (answer,) = wait_until(lambda: answers_to("rate_limit", "app.add", "100/s"), "an answer")
    assert "ok" in next(iter(answer.values()))
    victim = note.delay("terminated", 30)
    wait_until(lambda: any((inspect.active() or {}).values()), "the long task")
    app.control.revoke(victim.id, terminate=True, signal="SIGKILL")
    wait_until(lambda: not any((inspect.active() or {"": True}).values()), "its end")
    assert note.delay("after-revoke").get(timeout=PATIENCE_S)
    assert not diary.times("terminated")


def events() -> None:
    """An event receiver gets every step of a task, and the heartbeats of workers."""
    seen: dict[str, int] = {}
    ours: set[str] = set()
    with app.connection_for_read() as connection:

        def count(event: dict[str, object]) -> None:
            # The first event may still be about an earlier task.
            if event["type"] == "worker-heartbeat" and not ours:
                ours.update(note.delay(f"event-{n}").id for n in range(5))
            elif event.get("uuid") in ours:
                seen[str(event["type"])] = seen.get(str(event["type"]), 0) + 1
            receiver.should_stop = seen.get("task-succeeded", 0) == 5 or time.monotonic() > end

        end = time.monotonic() + PATIENCE_S
        receiver = app.events.Receiver(connection, handlers={"*": count})
        receiver.capture(timeout=PATIENCE_S, wakeup=True)
    steps = [seen.get(f"task-{step}") for step in ("sent", "received", "started", "succeeded")]
    assert steps == [5, 5, 5, 5], seen


def at_work(name: str) -> dict[str, list[object]]:
    """What all workers are running, if the one of that name is running anything."""
    active: dict[str, list[object]] = both.active() or {}
    return active if active.get(name) else {}


def shared_fairly() -> None:
    """With a prefetch of one, a second worker takes the tasks that the first has not begun."""
    with Worker(app, "second", LOG, concurrency=2) as second:
        sent = [note.delay(f"fair-{n}", 1.5) for n in range(12)]
        active = wait_until(lambda: at_work(second.name), "work for the second worker")
        reserved = wait_until(both.reserved, "what is reserved")
        for name in active:
            held = len(active[name]) + len(reserved.get(name, []))
            assert held <= 4, f"{name} holds {held}"
        for each in sent:
            each.get(timeout=PATIENCE_S)
    assert sorted(diary.names("fair-")) == sorted(f"fair-{n}" for n in range(12))


def worker_killed() -> None:
    """Tasks that a killed worker held are run by the next worker; nothing is lost."""
    wanted = {f"killed-{n}" for n in range(60)}
    with Worker(app, "victim", LOG) as victim:
        for name in sorted(wanted):
            note.apply_async((name, 0.05), countdown=1 if name.endswith("7") else None)
        wait_until(lambda: len(diary.names("killed-")) >= 10, "the first tasks")
        victim.kill()
    with Worker(app, "successor", LOG):
        wait_until(lambda: wanted <= set(diary.names("killed-")), "all tasks")


def outlive() -> None:
    """A worker that keeps running while the broker is restarted does all tasks."""
    wanted = {f"steady-{n}" for n in range(80)}
    with Worker(app, "steady", LOG):
        for n in range(60):
            note.apply_async((f"steady-{n}", 0.05), countdown=8 if n % 10 == 7 else None)
        wait_until(lambda: len(diary.names("steady-")) >= 10, "the first tasks")
        DIARY.with_suffix(".begun").touch()
        wait_until(DIARY.with_suffix(".restarted").exists, "the restart")
        for n in range(60, 80):
            note.delay(f"steady-{n}")
        wait_until(lambda: wanted <= set(diary.names("steady-")), "all tasks")


def begin() -> None:
    """Leave tasks behind: some done, some held by a worker that is killed, some delayed."""
    with Worker(app, "victim", LOG) as victim:
        for n in range(120):
            note.apply_async((f"left-{n}", 0.05), countdown=8 if n % 10 == 7 else None)
        wait_until(lambda: len(diary.names("left-")) >= 20, "the first tasks")
        victim.kill()


def finish() -> None:
    """Everything that was left behind gets done."""
    wanted = {f"left-{n}" for n in range(120)}
    with Worker(app, "successor", LOG):
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
    """Run the scenarios for one worker, then those that start further workers."""
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
        "outlive": lambda: play(outlive),
    }
    sys.exit(0 if parts[sys.argv[1]]() else 1)
