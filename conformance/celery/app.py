"""The Celery application that the scenarios' worker runs.

Every task appends a line to a file when it has done its work. The file survives whatever happens to
the worker and the broker afterwards.
"""

import os
import time
from pathlib import Path

from celery import Celery
from kombu import Exchange, Queue

DIARY = Path(os.environ["CELERY_DIARY"])
QUEUE_TYPE = os.environ["CELERY_QUEUE_TYPE"]

app = Celery("scenarios", broker=os.environ["CELERY_BROKER"], backend="rpc://")
app.conf.update(
    broker_connection_retry_on_startup=True,
    broker_transport_options={"confirm_publish": True},
    result_expires=120,
    task_acks_late=True,
    task_reject_on_worker_lost=True,
    task_send_sent_event=True,
    task_track_started=True,
    worker_prefetch_multiplier=1,
    worker_send_task_events=True,
)
if QUEUE_TYPE == "quorum":
    # Delays in the broker: 28 queues with TTLs, each dead-lettering to the next.
    app.conf.update(
        task_default_queue="tasks-quorum",
        task_default_queue_type="quorum",
        task_default_exchange="tasks-quorum",
        task_default_exchange_type="topic",
        task_default_routing_key="tasks-quorum",
        broker_native_delayed_delivery_queue_type="quorum",
    )
else:
    urgent = Queue(
        "urgent", Exchange("urgent"), routing_key="urgent", queue_arguments={"x-max-priority": 9}
    )
    plain = Queue("tasks", Exchange("tasks"), routing_key="tasks")
    app.conf.update(
        task_default_queue="tasks",
        task_default_exchange="tasks",
        task_default_routing_key="tasks",
        task_queues=[plain, urgent],
    )


def write(*words: object) -> None:
    """Append a line to the diary."""
    with DIARY.open("a") as diary:
        diary.write(" ".join(map(str, words)) + "\n")


@app.task
def add(x: int, y: int) -> int:
    return x + y


@app.task
def note(name: str, work_s: float = 0.0) -> str:
    """Work for a while, then note it in the diary."""
    time.sleep(work_s)
    write(name, time.time())
    return name


@app.task
def fail(text: str) -> None:
    raise ValueError(text)


@app.task(bind=True, max_retries=5)
def third_time(self, name: str, countdown: float) -> int:
    """Fail twice and ask to be retried each time."""
    write(name, time.time())
    if self.request.retries < 2:
        raise self.retry(countdown=countdown)
    return self.request.retries
