"""A running broker, as the doctor asks it.

The rule: it is asked what operators may ask, twice where something may grow; nothing is changed.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from itertools import chain
from typing import Any, Final
from urllib.parse import urlencode

from arneb.ctl.session import Session
from arneb.doctor import broker_checks
from arneb.doctor.findings import Finding, error, warning

GROWS_S: Final = 1.0
"""Between two looks at the queues."""


def running_findings(
    session: Session, wait: Callable[[float], None] = time.sleep
) -> Iterator[Finding]:
    """What is wrong with the broker that ``session`` asks."""
    if session.is_trusted:
        about = session.steer("GET", "about")
        yield from broker_checks.cluster(about["cluster"] or {})
        if about["state"] != "running":
            yield error(
                "stopped", f"the broker is {about['state']}, its process runs",
                "arneb ctl start_app", about["data_dir"],
            )  # fmt: skip
            return
        yield from _readers(about["long_readers"])
        yield from broker_checks.clock(time.time_ns() // 1_000_000, about["now_ms"])
    before = {(each["vhost"], each["name"]): each["messages"] for each in session.get("queues")}
    _longest(session)  # from now on they are sampled
    wait(GROWS_S)
    [node] = session.get("nodes")
    yield from chain(
        broker_checks.alarms(node),
        broker_checks.descriptors(node),
        broker_checks.queues(session.get("queues"), before),
        broker_checks.growth(_longest(session)),
        broker_checks.channels(session.get("channels")),
        broker_checks.connections(session.get("connections")),
        broker_checks.certificates(
            _expiring(session, 0), _expiring(session, broker_checks.EXPIRES_SOON_DAYS)
        ),
    )
    if session.is_trusted:
        users = session.get("users")
        yield from broker_checks.settings(
            session.steer("GET", "environment"), users, _guest(session)
        )


def silent(where: str, waited_s: float) -> Finding:
    """What is wrong with a broker at ``place`` that accepts a request and does not answer."""
    return error(
        "no-answer", f"the broker has not answered for {waited_s:.0f} s: it hangs, or is suspended",
        "see its log, what its process does and whether its disk answers", where,
    )  # fmt: skip


def _longest(session: Session) -> list[Mapping[str, Any]]:
    """The longest queues and topics, as the page lists them."""
    query = {"page": "1", "page_size": str(broker_checks.LONGEST), "sort": "messages"}
    found = session.get("page", "topics", **query, sort_reverse="true")
    return [each for each in found["items"] if each["messages"]]


def _readers(found: list[Mapping[str, Any]]) -> Iterator[Finding]:
    """Processes that hold pages of the store."""
    for each in found:
        yield warning(
            "reader", f"process {each['pid']} has read the store for {each['age_s']:,.0f} s; "
            "the data file grows as long as it reads",
            "end it, or have it read in shorter pieces",
        )  # fmt: skip


def _expiring(session: Session, days: int) -> list[str]:
    path = ("health", "checks", "certificate-expiration", str(days), "days")
    answer = session.api("GET", *path)
    expired = answer.value.get("expired", []) if answer.status == 503 else []
    return [each["path"] for each in expired]


def _guest(session: Session) -> bool:
    """Whether guest has the password that everybody knows."""
    if session.api("GET", "users", "guest").status == 404:
        return False
    form = urlencode({"username": "guest", "password": "guest"})
    return session.ask("POST", "/api/login", form).is_done
