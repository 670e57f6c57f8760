"""What the leaders of several shards tell the page, as one answer."""

from typing import Any

from arneb.http.management.page import transactions as opened
from arneb.http.shards.page_parts import ADDED, MACHINE, delayed, node, transactions


def standing(name: str, **more: Any) -> dict[str, Any]:
    histogram = {"bounds": [1], "counts": [1, 2], "sum": 0.5}
    figures = {
        **dict.fromkeys([*ADDED, *MACHINE], 3), "commit_s": histogram, "commit_entries": histogram,
    }  # fmt: skip
    return {"node": "arneb@host", "alarms": [], "cluster": {"node": name}, **figures, **more}


def test_figures_are_added_and_machines_are_listed_side_by_side() -> None:
    found = node([("main", standing("n1")), ("audit", standing("n2", memory_bytes=7))], {})
    assert (found["entries_total"], found["memory_bytes"]) == (6, 3)
    assert found["commit_s"] == {"bounds": [1], "counts": [2, 4], "sum": 1.0}
    assert [(each["node"], each["memory_bytes"]) for each in found["leaders"]] == [
        ("n1", 3), ("n2", 7),
    ]  # fmt: skip
    assert found["members"] == [{"node": "n1"}, {"node": "n2"}]


def test_what_a_node_reports_twice_is_shown_once() -> None:
    alarm = {"name": "behind n1 audit", "text": "t", "advice": "", "is": 0, "limit": 0}
    same = standing("n1", alarms=[alarm])
    found = node([("main", same), ("audit", same)], {})
    assert found["alarms"] == [alarm]
    assert found["members"] == [{"node": "n1"}]


def test_a_user_who_may_not_monitor_sees_no_figures() -> None:
    plain = {"node": "arneb@host", "alarms": [], "version": "1"}
    assert "leaders" not in node([("main", plain), ("audit", plain)], {})


def test_transactions_are_sorted_together_and_name_their_shard() -> None:
    def held(name: str, messages: int) -> dict[str, Any]:
        return {"name": name, "messages": messages, "acknowledgements": 0}

    def since(number: str, at_ms: int) -> dict[str, Any]:
        return {"number": number, "opened_ms": at_ms}

    main = {
        "amqp_total": 300,
        "amqp": [held("a", 3)] * 200,
        "pulsar_total": 1,
        "pulsar": [since("0", 9)],
    }
    audit = {"amqp_total": 1, "amqp": [held("b", 5)], "pulsar_total": 1, "pulsar": [since("0", 4)]}
    found = transactions([("main", main), ("audit", audit)])
    assert (found["amqp_total"], found["pulsar_total"]) == (301, 2)
    assert len(found["amqp"]) == opened.SHOWN_MAX
    assert (found["amqp"][0]["name"], found["amqp"][0]["shard"]) == ("b", "audit")
    assert [(each["shard"], each["number"]) for each in found["pulsar"]] == [
        ("audit", "0"), ("main", "0"),
    ]  # fmt: skip


def test_the_topic_with_the_most_delayed_messages_comes_first() -> None:
    rows = [("main", [{"delayed": 2}, {"delayed": 1}]), ("audit", [{"delayed": 5}])]
    assert [each["delayed"] for each in delayed(rows)] == [5, 2, 1]
