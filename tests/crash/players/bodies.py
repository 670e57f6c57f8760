"""Message bodies that contain their message's number throughout."""


def body_of(number: int, size: int) -> bytes:
    """A body full of its number, so that a page of another body would be noticed."""
    unit = b"%d:" % number
    return (unit * (size // len(unit) + 1))[: max(size, len(unit))]


def number_of(body: bytes) -> int:
    return int(body.partition(b":")[0])


def is_whole(body: bytes) -> bool:
    """Whether it is byte for byte what :func:`body_of` made."""
    return body == body_of(number_of(body), len(body))
