"""Errors of the data API as the connector raises them.

The rule: the text is one line for users that names the broker; the code is for programs.
"""

import json

from arneb_core.api.errors import StoreUnusable


class ServiceError(StoreUnusable):
    """The broker did not do what was requested; ``code`` as in docs/internals/data-api.md, or
    ``unreachable``."""

    def __init__(self, code: str, reason: str, status: int = 0) -> None:
        super().__init__(reason)
        self.code = code
        self.reason = reason
        self.status = status

    @classmethod
    def from_document(cls, data: bytes, address: str, status: int = 500) -> "ServiceError":
        """Return the error in the response of the broker, or of whatever else answers, at
        ``address``."""
        try:
            document = json.loads(data)
            code, reason = str(document.get("code", "")), str(document.get("reason", ""))
        except (ValueError, AttributeError):
            code, reason = "", data[:200].decode("utf-8", "replace")
        if not code and status in (404, 405):
            text = f"there is no data API at {address}: is it the HTTP port of an Arneb broker?"
            return cls("no_data_api", text, status)
        if status == 401:
            text = f"the broker at {address} does not let you in: name a user and a password, or"
            how = "a token (options service.user, service.password, service.token)"
            return cls("unauthorized", f"{text} {how}", status)
        if not code and status == 413:
            code, reason = "body_too_large", f"{reason}, and no row is divided"
        if not code:
            code = "refused"
        return cls(code, f"{reason or f'status {status}'} (the broker at {address})", status)

    def __reduce__(self) -> "tuple[type[ServiceError], tuple[str, str, int]]":
        # Spark brings an executor's errors to the driver pickled.
        return ServiceError, (self.code, self.reason, self.status)
