"""Text of other origins, as Arrow accepts it.

The rule: the text of any message can be shown; invalid characters are replaced.
"""


def printable(text: str) -> str:
    """Replace what was not UTF-8 on the wire, and lone surrogates, which JSON's escapes can
    produce."""
    try:
        return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
