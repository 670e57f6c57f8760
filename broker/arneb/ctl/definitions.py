"""Definitions: exports and imports topology, users and permissions.

The rule: the file is JSON as RabbitMQ writes it; the broker reports what is wrong with it.
"""

import json
import sys
from pathlib import Path
from typing import Final

from arneb.ctl.exits import ExitCode, error
from arneb.ctl.session import Command, Misused, Session

INTERNAL: Final = "internal"
"""Global parameters that begin so are the broker's own, and are not exported."""


def _export(session: Session) -> None:
    target = session.arguments[0]
    found = session.get("definitions")
    found["global_parameters"] = [
        each for each in found["global_parameters"] if not each["name"].startswith(INTERNAL)
    ]
    text = json.dumps(found, ensure_ascii=False)
    if target == "-":
        session.output.value(found, text)
        return
    session.says(f'Exporting definitions in JSON to a file at "{target}" ...')
    try:
        Path(target).write_text(text + "\n", encoding="utf-8")
    except OSError as failed:
        what = f"cannot write {target}: {failed.strerror}"
        raise error(ExitCode.CANNOT_CREATE, what) from failed


def _import(session: Session) -> None:
    source = session.arguments[0] if session.arguments else "-"
    if source != "-" and not Path(source).is_file():
        text = f"Bad argument: File {source} does not exist"
        raise Misused(text, ExitCode.DATA)
    where = "standard input" if source == "-" else f'a file at "{source}"'
    session.says(f"Importing definitions in JSON from {where} ...")
    try:
        text = sys.stdin.read() if source == "-" else Path(source).read_text(encoding="utf-8")
        found = json.loads(text)
    except (OSError, ValueError) as failed:
        raise error(ExitCode.DATA, f"cannot read definitions: {failed}") from failed
    session.checked(session.api("POST", "definitions", body=found))


COMMANDS: Final = (
    Command("export_definitions", "<file_path | \"-\">", "Exports definitions in JSON", _export, 1,
            1, frozenset({"format"})),
    Command("import_definitions", "<file_path | \"-\">", "Imports definitions in JSON", _import, 0,
            1, frozenset({"format", "skip-if-unchanged"})),
)  # fmt: skip
