"""The dashboard and the alert rules: they name nothing that does not exist, and the rules fire."""

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any, Final

import pytest
from tests.broker.http.management.kit import managed
from tests.docs.test_guide import metrics

from arneb.http.metrics.pages import RabbitPages

MONITORING: Final = Path(__file__).resolve().parents[2] / "docs" / "monitoring"
DASHBOARD: Final = MONITORING / "arneb-dashboard.json"
ALERTS: Final = MONITORING / "arneb-alerts.yml"
GUIDE: Final = MONITORING.parent / "guide" / "monitoring.md"

SAMPLED: Final = re.compile(r"\b((?:arneb|rabbitmq|pulsar|process)_\w+)")
OF_HISTOGRAMS: Final = re.compile(r"_(?:bucket|sum|count)$")


async def known(path: Path) -> set[str]:
    """The metrics of the page of sums, and Arneb's own ones of objects."""
    async with managed(path) as call:
        page = await RabbitPages(call.site).sums()
    of_rabbit = set(re.findall(r"^# TYPE (\S+) ", page, re.MULTILINE))
    return of_rabbit | set(metrics())


def queries_of(dashboard: Any) -> list[str]:
    return [target["expr"] for panel in dashboard["panels"] for target in panel.get("targets", [])]


def expressions() -> list[str]:
    return re.findall(r"expr: (.+)$", ALERTS.read_text(), re.MULTILINE)


async def test_every_metric_that_the_dashboard_or_an_alert_names_exists(tmp_path: Path) -> None:
    there = await known(tmp_path)
    asked = [*queries_of(json.loads(DASHBOARD.read_text())), *expressions()]
    assert len(asked) > 50
    for query in asked:
        names = SAMPLED.findall(query)
        assert names or "up{" in query, query
        for name in names:
            assert OF_HISTOGRAMS.sub("", name) in there or name in there, f"{name} in {query}"


def test_every_panel_says_what_it_shows_and_stands_where_no_other_does() -> None:
    panels = json.loads(DASHBOARD.read_text())["panels"]
    places: set[tuple[int, int]] = set()
    for panel in panels:
        assert panel["type"] == "row" or panel["targets"], panel["title"]
        place = panel["gridPos"]
        covered = {
            (place["x"] + x, place["y"] + y) for x in range(place["w"]) for y in range(place["h"])
        }
        assert not covered & places, panel["title"]
        places |= covered
    assert len({panel["id"] for panel in panels}) == len(panels)


def test_the_guide_names_every_alert() -> None:
    alerts = set(re.findall(r"- alert: (\w+)$", ALERTS.read_text(), re.MULTILINE))
    assert len(alerts) > 10
    assert set(re.findall(r"\bArneb[A-Z]\w+", GUIDE.read_text())) == alerts


FIRING: Final = """\
rule_files: [{rules}]
evaluation_interval: 1m
tests:
  - interval: 1m
    input_series:
      - {{series: 'up{{job="arneb", instance="a"}}', values: '1 0 0 0 0'}}
      - {{series: 'arneb_memory_alarm{{instance="a"}}', values: '0 1 1 1 1'}}
      - {{series: 'arneb_disk_alarm{{instance="a"}}', values: '0 0 0 0 0'}}
      - {{series: 'arneb_engine_commit_failures_total{{instance="a"}}', values: '0 1 1 1 1'}}
    alert_rule_test:
      - {{eval_time: 0m, alertname: ArnebDown, exp_alerts: []}}
      - {{eval_time: 0m, alertname: ArnebPublishersBlocked, exp_alerts: []}}
      - eval_time: 3m
        alertname: ArnebDown
        exp_alerts:
          - exp_labels: {{job: arneb, instance: a, severity: critical}}
            exp_annotations:
              summary: a does not answer
              description: Prometheus has not reached the broker for a minute.
      - eval_time: 2m
        alertname: ArnebCommitsFail
        exp_alerts:
          - exp_labels: {{instance: a, severity: critical}}
            exp_annotations:
              summary: a cannot write
              description: What was not stored was not confirmed. The log of the broker says why.
"""


@pytest.mark.skipif(shutil.which("promtool") is None, reason="expected Debian's prometheus")
def test_the_rules_fire(tmp_path: Path) -> None:
    tests = tmp_path / "tests.yml"
    tests.write_text(FIRING.format(rules=ALERTS))
    for command in (["check", "rules", str(ALERTS)], ["test", "rules", str(tests)]):
        done = subprocess.run(
            ["promtool", *command], capture_output=True, text=True, timeout=60, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
