"""What operators see of a node, and what needs their attention."""

from typing import Any

import pytest

from arneb.clustered.membership import BEHIND_S, alarms_of, membership

FOLLOWING: dict[str, Any] = {
    "shard": "main", "node": "n2", "state": "following", "leads": False, "serves": False,
    "leader": "n1", "epoch": 3, "number": 70, "under_way": 0, "lag_records": 1, "lag_bytes": 10,
    "lag_s": 0.4, "skew_ms": -3, "skew_alarm": False, "why": "",
    "trim_alarm": "", "members": [], "led_by": "n1", "differs": False, "carried": 2,
}  # fmt: skip
LEADING = FOLLOWING | {
    "node": "n1", "state": "leading", "leads": True, "serves": True, "lag_s": 0.0, "skew_ms": 0
}  # fmt: skip


def names(about: dict[str, Any]) -> list[str]:
    return [each["name"].split()[0] for each in membership(about)["alarms"]]


def test_a_node_is_shown_with_its_role_in_the_shard() -> None:
    found = membership(FOLLOWING)
    assert (found["node"], found["carried"], found["alarms"]) == ("n2", 2, [])
    [shard] = found["shards"]
    assert shard["shard"] == "main"
    assert shard["led_by"] == "n1"
    assert not {"node", "carried"} & shard.keys()


@pytest.mark.parametrize("about", [FOLLOWING, LEADING])
def test_no_alarm_while_all_is_well(about: dict[str, Any]) -> None:
    assert names(about) == []


@pytest.mark.parametrize(
    ("about", "expected"),
    [
        (LEADING | {"serves": False}, ["lease"]),
        (FOLLOWING | {"led_by": ""}, ["nobody"]),
        (FOLLOWING | {"led_by": "", "lag_s": 900.0}, ["nobody"]),
        (FOLLOWING | {"lag_s": BEHIND_S}, []),
        (FOLLOWING | {"lag_s": BEHIND_S + 0.1}, ["behind"]),
        (FOLLOWING | {"skew_alarm": True, "skew_ms": -250}, ["clock"]),
        (LEADING | {"trim_alarm": "the log topic is not trimmed: 1 of 2"}, ["trim"]),
        (FOLLOWING | {"skew_alarm": True, "skew_ms": 250, "lag_s": 60.0}, ["behind", "clock"]),
        (FOLLOWING | {"differs": True}, ["differs"]),
        (FOLLOWING | {"others": [FOLLOWING | {"shard": "audit", "led_by": ""}]}, ["nobody"]),
        (FOLLOWING | {"state": "stopped", "led_by": "", "why": "it differs"}, ["stopped"]),
    ],
)
def test_problems_are_alarms(about: dict[str, Any], expected: list[str]) -> None:
    assert names(about) == expected


def test_a_node_is_shown_with_its_role_in_every_shard() -> None:
    other = LEADING | {"shard": "audit", "node": "n2"}
    del other["carried"]
    found = membership(FOLLOWING | {"others": [other]})
    assert [each["shard"] for each in found["shards"]] == ["main", "audit"]
    assert not any({"node", "carried", "others"} & each.keys() for each in found["shards"])


def test_an_alarm_says_what_is_wrong_and_what_to_do() -> None:
    [clock] = alarms_of(FOLLOWING | {"skew_alarm": True, "skew_ms": -250})
    assert clock["text"] == "The clock of node n2 is 250 ms behind the leader's."
    assert "time servers" in clock["advice"]
    assert clock["name"] == "clock n2 main"
    [stopped] = alarms_of(FOLLOWING | {"state": "stopped", "why": "it differs"})
    assert stopped["text"].endswith("any more: it differs.")
