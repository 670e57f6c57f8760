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
a file needs to hold only what you change; options on the command line win over the file. A key
that does not exist is refused, and the nearest one that does is named. The file is read once, when
the broker starts. On SIGHUP it is read again: the level of the log, the certificates, and the keys
and passwords of `[pulsar.authentication]` hold at once, log files are opened anew, and of
everything else it is said that it needs a restart. The watermarks of `[alarms]` can be moved while
the broker runs (`arneb alarms`, `arneb ctl`).

Every key that is one value has a variable of the environment, too, which wins over the file:
`ARNEB_AMQP_HEARTBEAT_S` is `heartbeat_s` in `[amqp]`. `arneb serve --rabbitmq-conf FILE` takes
RabbitMQ's own file first.

Where a key is Pulsar's as well, it is taken by the name that it has in Pulsar's `broker.conf`, too;
a file may have either, and not both.

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
