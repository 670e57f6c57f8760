"""Visible text: names from outside, as they may be printed.

The rule: what somebody else named is printed so that every character of it can be seen. Control
characters would move the cursor of a terminal, format characters would turn the text around (bidi)
or hide in it, and line separators would make one line two.
"""


def visible(text: str) -> str:
    """``text`` with an escape in place of every character that does not print as itself."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else _escape(each) for each in text)


def _escape(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")
