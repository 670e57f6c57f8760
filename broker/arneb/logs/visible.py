"""Visible text: names from outside, made safe to print.

The rule: a name from outside is printed so that every character is visible. Control characters
would move a terminal's cursor, format characters would reverse the text (bidi) or hide in it, and
line separators would make one line two.
"""


def visible(text: str) -> str:
    """Return ``text`` with every unprintable character escaped."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else _escape(each) for each in text)


def _escape(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")
