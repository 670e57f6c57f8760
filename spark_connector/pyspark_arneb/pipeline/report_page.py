"""The report as a page: one self-contained HTML file with its plots.

The rule: names of topics and keys come from others, so all of them are escaped; plots are drawn
here as SVG, because a self-contained page loads no script.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from html import escape
from typing import Final

from pyspark_arneb.pipeline.report import HistoryReport, Report, Spread, TopicReport

WIDTH: Final = 640
HEIGHT: Final = 120
BAR: Final = 18
"""In pixels: the size of a plot, above, and the distance between bars."""

STYLE: Final = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 60rem; padding: 0 1rem;
       color: #1b2430; background: #fff }
h1, h2 { font-weight: 600 } h2 { margin: 2.5rem 0 .3rem; font-size: 1.15rem; word-break: break-all }
table { border-collapse: collapse; margin: .6rem 0 1rem; font-variant-numeric: tabular-nums }
td, th { padding: .15rem 1.2rem .15rem 0; text-align: left; vertical-align: top }
th { font-weight: 500; color: #5b6776 } svg { display: block; max-width: 100% }
.line { fill: none; stroke: #2f6fde; stroke-width: 1.5 } .area { fill: #2f6fde22 }
.bar { fill: #2f6fde } .axis, text { font-size: 11px; fill: #5b6776 } .note { color: #5b6776 }
@media (prefers-color-scheme: dark) {
  body { color: #dbe2ea; background: #12161c }
  th, .axis, text, .note { fill: #9aa7b5; color: #9aa7b5 } }
"""


def page(report: Report, made_at: datetime) -> str:
    """The whole page."""
    total = sum(each.messages for each in report.topics)
    parts = [
        "<!doctype html>\n<html lang='en'><head><meta charset='utf-8'>",
        "<meta name='viewport' content='width=device-width'>",
        f"<title>Arneb report</title><style>{STYLE}</style></head><body>",
        f"<h1>Arneb report</h1><p class='note'>{made_at:%Y-%m-%d %H:%M:%S} UTC, ",
        f"{len(report.topics)} topics, {total:,} messages</p>",
        *map(_topic, report.topics),
    ]
    if report.histories:
        parts += ["<h1>Histories</h1>", *map(_history, report.histories)]
    return "\n".join([*parts, "</body></html>\n"])


def _topic(topic: TopicReport) -> str:
    parts = [
        f"<section><h2>{escape(topic.topic)}</h2>",
        _table(
            {
                "messages": f"{topic.messages:,} ({topic.bytes:,} bytes)",
                "from, to": f"{topic.first:%Y-%m-%d %H:%M:%S}, {topic.last:%Y-%m-%d %H:%M:%S}",
                "a second": f"{topic.per_s:,.1f}, at most {topic.peak_per_s:,.1f}",
                "bytes a message": _spread(topic.size_bytes),
                "tombstones": f"{topic.tombstones:,}",
            }
        ),
        _over_time(topic),
    ]
    if topic.dead_letters:
        parts += ["<p>Dead letters by reason</p>", _bars(list(topic.dead_letters.items()))]
    if topic.hot_keys:
        parts += ["<p>Keys with the most messages</p>", _bars(topic.hot_keys)]
    return "\n".join([*parts, "</section>"])


def _history(history: HistoryReport) -> str:
    rows = {
        "delivered": f"{history.delivered:,}, of that again {history.redelivered:,}",
        "acknowledged": f"{history.acknowledged:,}",
        "returned": f"{history.returned:,}",
        "an entry at most": f"{history.most_delivered:,} times",
        "publish to delivery, ms": _spread(history.to_delivery_ms),
        "publish to ack, ms": _spread(history.to_ack_ms),
    }
    parts = [f"<section><h2>{escape(history.where)}</h2>", _table(rows)]
    if history.departed:
        parts += ["<p>Left without an ack, by reason</p>", _bars(list(history.departed.items()))]
    return "\n".join([*parts, "</section>"])


def _spread(spread: Spread) -> str:
    values = (spread.p50, spread.p95, spread.p99, spread.most)
    names = ("half", "95 %", "99 %", "most")
    return ", ".join(f"{name} {value:,}" for name, value in zip(names, values, strict=True))


def _table(rows: Mapping[str, str]) -> str:
    body = "".join(
        f"<tr><th>{name}</th><td>{escape(value)}</td></tr>" for name, value in rows.items()
    )
    return f"<table>{body}</table>"


def _over_time(topic: TopicReport) -> str:
    points = topic.over_time
    if len(points) < 2:
        return ""
    first, span = points[0].at, (points[-1].at - points[0].at).total_seconds() or 1.0
    most = max(each.messages for each in points)
    places = [
        (
            (each.at - first).total_seconds() / span * WIDTH,
            HEIGHT - each.messages / most * (HEIGHT - 16),
        )
        for each in points
    ]
    line = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
    last = points[-1].at
    form = "%H:%M:%S" if first.date() == last.date() else "%Y-%m-%d %H:%M"
    return (
        f"<svg viewBox='0 0 {WIDTH} {HEIGHT + 16}' width='{WIDTH}' role='img' "
        f"aria-label='messages over time'>"
        f"<polygon class='area' points='0,{HEIGHT} {line} {WIDTH},{HEIGHT}'/>"
        f"<polyline class='line' points='{line}'/>"
        f"<text x='0' y='11'>{most / topic.point_s:,.1f} a second</text>"
        f"<text x='0' y='{HEIGHT + 13}'>{first:{form}}</text>"
        f"<text x='{WIDTH}' y='{HEIGHT + 13}' text-anchor='end'>{last:{form}}</text>"
        "</svg>"
    )


def _bars(rows: Sequence[tuple[str, int]]) -> str:
    most = max((count for _, count in rows), default=0) or 1
    drawn = "".join(
        f"<text x='0' y='{index * BAR + 13}'>{escape(name[:40])}</text>"
        f"<rect class='bar' x='260' y='{index * BAR + 3}' height='12' "
        f"width='{count / most * 280:.1f}'/>"
        f"<text x='{266 + count / most * 280:.1f}' y='{index * BAR + 13}'>{count:,}</text>"
        for index, (name, count) in enumerate(rows)
    )
    return f"<svg viewBox='0 0 {WIDTH} {len(rows) * BAR}' width='{WIDTH}'>{drawn}</svg>"
