"""Text that somebody else wrote, as Arrow takes it.

The rule: whatever stands in a message can be shown; what is no character is replaced.
"""


def printable(text: str) -> str:
    """The text with what was no UTF-8 on the wire replaced, and halves of characters, which JSON's
    escapes can say."""
    try:
        return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
