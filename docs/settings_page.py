"""The settings page: docs/guide/settings.md, written from the configuration's own classes.

The rule: the page is made from their docstrings alone. ``python docs/settings_page.py`` writes it;
``--check`` fails if it is not what would be written, and so does a test.
"""

import sys
from pathlib import Path
from typing import Final

from arneb.settings.described import described_tables

PAGE: Final = Path(__file__).parent / "guide" / "settings.md"

HEAD: Final = """\
# Settings

<!-- Written by docs/settings_page.py from the configuration's classes; do not edit. -->

`arneb serve --config arneb.toml` reads a [TOML](https://toml.io) file. Every key has a default, so
a file needs only what you change. An unknown key is refused, and the error names the nearest known
one. The file is read when the broker starts, and again on SIGHUP: the log level, certificates, and
the keys and passwords of `[pulsar.authentication]` then take effect at once, log files are
reopened, and the log names all other changes, which need a restart. The watermarks of `[alarms]`
can be changed while the broker runs (`arneb alarms`, `arneb ctl`).

Environment variables override the file, and command-line options override both. Each key with a
single value has a variable: `ARNEB_AMQP_HEARTBEAT_S` is `heartbeat_s` in `[amqp]`.
`arneb serve --rabbitmq-conf FILE` reads RabbitMQ's own file, before all of these.

A key that Pulsar has too may also be given by its name in Pulsar's `broker.conf`, but not by both
names in one file.

Names end in their unit: `_s` seconds, `_ms` milliseconds, `_bytes` bytes.

```toml
data_dir = "/var/lib/arneb"

[amqp]
listen = "0.0.0.0:5672"

[[amqp.users]]
name = "shop"
password = "correct horse"

[retention]
time_s = 86_400
```
"""


def page() -> str:
    """The whole page."""
    parts = [HEAD]
    for table in described_tables():
        brackets = f"[[{table.name}]]" if table.is_list else f"[{table.name}]"
        parts.append(f"## `{brackets}`" if table.name else "## Before all tables")
        parts.append(table.text)
        rows = [f"| `{k.name}` | {k.type} | {k.default} | {k.text} |" for k in table.keys]
        if rows:
            parts.append("\n".join(["| key | value | default | |", "|---|---|---|---|", *rows]))
    return "\n".join(f"{part.rstrip()}\n" for part in parts)


def main() -> None:
    """Write the page, or compare it."""
    if sys.argv[1:] == ["--check"]:
        if PAGE.read_text(encoding="utf-8") != page():
            sys.exit(f"{PAGE} is not what the classes say: run python docs/settings_page.py")
        return
    PAGE.parent.mkdir(exist_ok=True)
    PAGE.write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
