"""``arneb alarms``: what a running broker is short of, and its watermarks, which may be moved."""

import json
from http.client import HTTPException
from typing import Any, Final
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

import click

from arneb.cli import Refused

PATH: Final = "/api/alarms"
TIMEOUT_S: Final = 10.0


@click.command(short_help="Show alarms; move their watermarks.")
@click.argument("url", metavar="URL")
@click.option("--memory-high-watermark", type=float, metavar="PART",
              help="Of the machine's memory, from 0 (an alarm at once) to 1.")  # fmt: skip
@click.option("--memory-high-watermark-bytes", type=int, metavar="BYTES",
              help="The same in bytes.")  # fmt: skip
@click.option("--disk-free-min-bytes", type=int, metavar="BYTES",
              help="What must be free on the data's disk; 0 = never an alarm.")  # fmt: skip
def alarms(url: str, **watermarks: float | None) -> None:
    """Show the alarms of the broker whose HTTP door is at URL.

    Watermarks that are given hold at once and until the broker is started again. While there is
    an alarm, AMQP connections that publish are blocked, and consumers go on.
    """
    given = {name: value for name, value in watermarks.items() if value is not None}
    show(ask(url, given))


def ask(url: str, watermarks: dict[str, float]) -> dict[str, Any]:
    """What the broker's HTTP door says, after moving ``watermarks`` if there are any."""
    if not url.startswith(("http://", "https://")):
        raise Refused(f"expected http://HOST:PORT, got {url}")
    request = Request(
        url.rstrip("/").removesuffix(PATH) + PATH,
        data=json.dumps(watermarks).encode() if watermarks else None,
        method="PUT" if watermarks else "GET",
        headers={"content-type": "application/json"},
    )
    try:
        with urlopen(request, timeout=TIMEOUT_S) as answer:
            found: dict[str, Any] = json.load(answer)
            return {key: found[key] for key in _KEYS}
    except HTTPError as error:
        raise Refused(_refusal(url, error)) from error
    except URLError as error:
        reason = getattr(error.reason, "strerror", None) or error.reason
        raise Refused(f"cannot reach {url}: {reason}") from error
    except (OSError, HTTPException, ValueError, KeyError, TypeError) as error:
        raise Refused(f"{url} does not answer as an Arneb broker does") from error


def show(found: dict[str, Any]) -> None:
    """One line for each resource."""
    for resource, level, mark in (
        ("memory", "memory_used_bytes", "memory_high_watermark_bytes"),
        ("disk", "disk_free_bytes", "disk_free_min_bytes"),
    ):
        state = "ALARM" if found[f"{resource}_alarm"] else "ok"
        click.echo(f"{resource}: {state}, {level} {found[level]:,}, {mark} {found[mark]:,}")


_KEYS: Final = (
    "memory_alarm", "memory_used_bytes", "memory_high_watermark_bytes",
    "disk_alarm", "disk_free_bytes", "disk_free_min_bytes",
)  # fmt: skip


def _refusal(url: str, error: HTTPError) -> str:
    try:
        return str(json.load(error)["reason"])
    except (OSError, ValueError, KeyError, TypeError):
        return f"{url} answers {error.code} {error.reason}: no Arneb broker?"
