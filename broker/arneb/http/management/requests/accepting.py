"""What a client accepts: JSON, or its request is refused.

The rule: like RabbitMQ's HTTP server, which checks this only once it knows the caller: 400 for a
header that cannot be read, and 406 without a body if the header does not admit JSON.
"""

import re
from collections.abc import Mapping
from typing import Final

from arneb.http.management.requests.calls import Refused

KINDS: Final = frozenset({"application/json", "application/*", "*/*"})
"""The content types of answers. RabbitMQ also has Erlang's binary format."""

_TOKEN: Final = r"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
_VALUE: Final = rf"""(?:{_TOKEN}|"(?:[^"\\]|\\.)*")"""
RANGE: Final = re.compile(
    rf"({_TOKEN}/{_TOKEN})((?:[ \t]*;[ \t]*(?!q=){_TOKEN}={_VALUE})*)"
    rf"(?:[ \t]*;[ \t]*q=(?:0(?:\.\d{{0,3}})?|1(?:\.0{{0,3}})?)"
    rf"(?:[ \t]*;[ \t]*{_TOKEN}(?:={_VALUE})?)*)?",
    re.IGNORECASE,
)
"""A media range, its parameters, and its weight."""

BETWEEN: Final = re.compile(r"[ \t]*(?:,[ \t]*|$)")


def expect_json_wanted(headers: Mapping[str, str]) -> None:
    """Raise 400 or 406 for a header ``accept`` that cannot be met."""
    text = headers.get("accept")
    if text is None or text in KINDS:  # as nearly always
        return
    at, is_met = 0, False
    while at < len(text):
        if (gap := BETWEEN.match(text, at)) is not None and gap.end() > at:
            at = gap.end()
            continue
        found = RANGE.match(text, at)
        end = None if found is None else BETWEEN.match(text, found.end())
        if found is None or end is None:
            raise Refused(400, "", "")
        # A parameter of JSON, even its character set, makes it a different content type.
        is_met = is_met or (found[1].lower() in KINDS and not found[2])
        at = end.end()
    if not is_met:
        raise Refused(406, "", "")
