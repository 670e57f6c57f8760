"""Checks of a running broker: what is wrong according to its own figures.

The rule: a check is a pure function of what the management API shows, so that each is tested with
its own figures; a check that compares two readings is given both.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from arneb.doctor.findings import Finding, error, note, warning
from arneb.monitoring.diagnosis import Cause

Document = Mapping[str, Any]

DESCRIPTORS_PART: Final = 0.8
DESCRIPTORS_MIN: Final = 10_000
"""The fewest descriptors that suffice for a server: each connection takes one."""

MEMORY_PART: Final = 0.8
"""The share of the memory watermark that counts as close to an alarm."""
DISK_TIMES: Final = 3.0
"""The multiple of the free minimum below which a disk counts as close to an alarm."""

UNACKED_MIN: Final = 10_000
"""Unacknowledged deliveries of one channel to report: mostly a consumer that forgets to."""

BACKLOG_MIN: Final = 10_000
NAMED_MAX: Final = 10
"""The most objects of a kind that are named one by one."""

EXPIRES_SOON_DAYS: Final = 30

LONGEST: Final = 50
"""The most queues and topics that are diagnosed for growth."""

NO_CONSUMERS: Final = Cause.NO_CONSUMERS.value

CLOCK_S_MAX: Final = 5.0


def alarms(node: Document) -> Iterator[Finding]:
    """Check memory and disk."""
    used, limit = node["mem_used"], node["mem_limit"]
    free, least = node["disk_free"], node["disk_free_limit"]
    if node["mem_alarm"]:
        yield error(
            "memory", f"memory alarm: {used:,} bytes used, watermark {limit:,}; publishers wait",
            "have consumers drain queues, or raise the watermark: "
            "arneb ctl set_vm_memory_high_watermark 0.6",
        )  # fmt: skip
    elif limit and used > MEMORY_PART * limit:
        yield warning(
            "memory", f"{used:,} bytes used, an alarm comes at {limit:,}",
            "find what grows by `arneb ctl list_queues name messages consumers`",
        )  # fmt: skip
    if node["disk_free_alarm"]:
        yield error(
            "disk", f"disk alarm: {free:,} bytes free, {least:,} required; publishers wait",
            "make room on the data's disk, or have consumers drain queues",
        )  # fmt: skip
    elif least and free < DISK_TIMES * least:
        yield warning(
            "disk", f"{free:,} bytes free, an alarm comes at {least:,}", "make room on the disk"
        )


def cluster(found: Document) -> Iterator[Finding]:
    """Check a node's part in a cluster; a node without a cluster has no findings."""
    for each in found.get("others", ()):
        yield from cluster(each)
    if found.get("state") == "stopped":
        yield error(
            "cluster", f"{found['node']} neither leads nor follows: {found['why']}",
            "read its log, then start it again; with an empty directory it takes a copy",
        )  # fmt: skip
    if found.get("trim_alarm"):
        yield warning(
            "log-not-trimmed", f"{found['trim_alarm']}; Pulsar's bookies fill up",
            "start the nodes that are away, add one, or set cluster.copies_min",
        )  # fmt: skip
    if found.get("skew_alarm"):
        yield warning(
            "clock", f"{found['node']}'s clock is {found['skew_ms']} ms ahead of the leader's",
            "run a time service on all nodes: expiry and delays go by the leader's clock",
        )  # fmt: skip


def descriptors(node: Document) -> Iterator[Finding]:
    """Check how many connections are possible."""
    used, most = node["fd_used"], node["fd_total"]
    if used > DESCRIPTORS_PART * most:
        yield error(
            "descriptors", f"{used:,} of {most:,} file descriptors are in use",
            "raise LimitNOFILE= of the unit, or ulimit -n, and close clients that leak connections",
        )  # fmt: skip
    elif most < DESCRIPTORS_MIN:
        yield warning(
            "descriptors", f"at most {most:,} file descriptors, one for each connection",
            "raise LimitNOFILE= of the unit, or ulimit -n",
        )  # fmt: skip


def queues(found: list[Document], before: Mapping[tuple[str, str], int]) -> Iterator[Finding]:
    """Find queues that grow without consumers; ``before`` has their messages a moment ago."""
    lonely = [each for each in found if not each["consumers"] and each["messages"]]
    growing = [each for each in lonely if each["messages"] > before.get(_key(each), 1 << 62)]
    large = [each for each in lonely if each["messages"] >= BACKLOG_MIN and each not in growing]
    yield from _some(
        growing,
        lambda each: error(
            "queue-growing", f"{each['messages']:,} messages, growing, and no consumer",
            "start a consumer, or bound it by a policy with max-length or message-ttl", _name(each),
        ),
    )  # fmt: skip
    yield from _some(
        large,
        lambda each: warning(
            "queue-without-consumer", f"{each['messages']:,} messages and no consumer",
            "start a consumer, or `arneb ctl purge_queue` what nobody wants", _name(each),
        ),
    )  # fmt: skip


def growth(found: list[Document]) -> Iterator[Finding]:
    """Find queues and topics that grow although they are consumed, each with the reason; those
    without consumers are found by :func:`queues`."""
    slow = [each for each in found if each["attention"] and each["cause"] != NO_CONSUMERS]
    yield from _some(
        slow,
        lambda each: warning(
            "slow", each["why"], "see its consumers on the page, or by `arneb ctl list_consumers`",
            _name(each),
        ),
    )  # fmt: skip


def channels(found: list[Document]) -> Iterator[Finding]:
    """Find channels that hold very many deliveries."""
    hogs = [each for each in found if each["messages_unacknowledged"] >= UNACKED_MIN]
    yield from _some(
        hogs,
        lambda each: warning(
            "unacknowledged",
            f"{each['messages_unacknowledged']:,} deliveries are not acknowledged, "
            f"prefetch {each['prefetch_count'] or 'without limit'}",
            "have the consumer acknowledge, and set a prefetch", each["name"],
        ),
    )  # fmt: skip


def connections(found: list[Document]) -> Iterator[Finding]:
    """Find connections that are blocked."""
    blocked = [each for each in found if each["state"] == "blocked"]
    if blocked:
        yield warning(
            "blocked", f"{len(blocked):,} connections publish and are blocked by an alarm",
            "end the alarm: consumers continue meanwhile",
        )  # fmt: skip


def certificates(expired: list[str], soon: list[str]) -> Iterator[Finding]:
    """Check the certificates of listeners."""
    for path in expired:
        yield error(
            "certificate", "the certificate has expired, or cannot be read",
            "renew it and send SIGHUP", path,
        )  # fmt: skip
    for path in soon:
        if path not in expired:
            yield warning(
                "certificate", f"the certificate expires within {EXPIRES_SOON_DAYS} days",
                "renew it and send SIGHUP", path,
            )  # fmt: skip


def settings(
    environment: Document, users: list[Document], guest_lets_in: bool
) -> Iterator[Finding]:
    """Check who may connect from elsewhere; ``guest_lets_in`` tells whether guest's known password
    is accepted."""
    amqp = environment["amqp"]
    outside = [name for name in ("amqp", "pulsar", "http", "http_pulsar")
               if _is_outside(environment[name]["listen"])]  # fmt: skip
    names = {each["name"] for each in users}
    named = {each["name"]: each["loopback_only"] for each in amqp["users"]}
    guest_is_local = named.get("guest", "guest" in amqp["loopback_users"])
    if "guest" in names and guest_lets_in and not guest_is_local and outside:
        yield error(
            "guest", "guest with the password guest may log in from elsewhere",
            "arneb ctl delete_user guest, or change_password",
        )  # fmt: skip
    if "pulsar" in outside and not environment["pulsar"]["authentication"]["methods"]:
        yield error(
            "open-port", "Pulsar's port is open to everybody who can reach it",
            "name methods in [pulsar.authentication], or listen on 127.0.0.1",
            environment["pulsar"]["listen"],
        )  # fmt: skip
    if "http_pulsar" in outside and not environment["pulsar"]["authentication"]["methods"]:
        yield error(
            "open-port", "Pulsar's admin API is open to everybody who can reach it",
            "name methods in [pulsar.authentication], or listen on 127.0.0.1",
            environment["http_pulsar"]["listen"],
        )  # fmt: skip
    if "amqp" in outside and environment["amqp"]["tls"]["listen"] is None:
        yield note(
            "plain-text", "AMQP's passwords cross the network in clear text",
            "set [amqp.tls], or listen on 127.0.0.1", amqp["listen"],
        )  # fmt: skip
    if environment["alarms"]["disk_free_min_bytes"] == 0:
        yield warning("disk", "there is no disk alarm: disk_free_min_bytes is 0", "set it")


def clock(here_ms: int, there_ms: int) -> Iterator[Finding]:
    """What time it is here and there."""
    off_s = abs(here_ms - there_ms) / 1000
    if off_s > CLOCK_S_MAX:
        yield warning(
            "clock", f"the broker's clock differs from this machine's by {off_s:,.0f} s",
            "run a time service on both: expiry, delays and tokens go by the clock",
        )  # fmt: skip


def _is_outside(listen: str | None) -> bool:
    """Others can reach it."""
    if not listen:
        return False
    host = listen.rpartition(":")[0].strip("[]")
    return not (host == "localhost" or host == "::1" or host.startswith("127."))


def _key(queue: Document) -> tuple[str, str]:
    return queue["vhost"], queue["name"]


def _name(queue: Document) -> str:
    return f"{queue['name']} in {queue['vhost']}"


def _some(found: list[Document], make: Callable[[Document], Finding]) -> Iterator[Finding]:
    """One for each, up to so many; then how many more."""
    for each in found[:NAMED_MAX]:
        yield make(each)
    if len(found) > NAMED_MAX:
        first = make(found[0])
        yield Finding(
            first.check, first.severity, f"{len(found) - NAMED_MAX:,} more like these", first.do
        )
