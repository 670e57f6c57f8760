"""Errors in changes of the access catalogue, worded for the operator."""


class AccessError(Exception):
    """A change that cannot be made; none of it is. The text is one line for the operator."""


class NoSuchUser(AccessError):
    """There is no user of that name."""

    def __init__(self, name: str) -> None:
        super().__init__(f"User '{name}' does not exist")


class NoSuchVhost(AccessError):
    """There is no vhost of that name."""

    def __init__(self, name: str) -> None:
        super().__init__(f"Virtual host '{name}' does not exist")


class NotSet(AccessError):
    """What was to be removed does not exist."""


class InvalidAccess(AccessError):
    """A given value is not valid."""


class NamespaceTaken(AccessError):
    """Two vhosts cannot have the same namespace."""

    def __init__(self, vhost: str, namespace: str, other: str) -> None:
        super().__init__(
            f"cannot create vhost '{vhost}': its namespace {namespace} is that of vhost '{other}'"
        )


class LimitReached(AccessError):
    """There are as many as allowed."""
