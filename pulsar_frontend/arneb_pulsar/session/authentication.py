"""Authentication: who the client of one connection is, at first and whenever its proof ends.

A client whose proof ends is asked for another by AUTH_CHALLENGE, if it can answer that, and is
closed if it does not answer in time, or cannot. A proof ends at a time of day, which is compared
with the clock when it comes to that and once a minute: clocks are set. All other time is the
event loop's.
"""

import math
from typing import Final

from arneb_pulsar.authorization.authorizer import Authorizer
from arneb_pulsar.authorization.callers import Caller
from arneb_pulsar.session.effects import Authenticate, Close
from arneb_pulsar.session.events import Authenticated
from arneb_pulsar.session.fields import text_of
from arneb_pulsar.session.output import Output
from arneb_pulsar.wire import commands
from arneb_pulsar.wire.proto import pulsar_pb2 as pb

INVALID_ROLES: Final = "Invalid roles."
NO_PROXY: Final = "Must not set proxyVersion without connecting as a ProxyRole."

ANSWER_WITHIN_S: Final = 60.0
"""What a client may take to send another proof; Pulsar's brokers look once a minute."""

LOOK_S: Final = 60.0
"""Between looks at the clock: so much later at the most a proof ends when that was set forward."""


class Authentication:
    """The proofs of one connection. ``deadline`` is when :meth:`tick` wants to be called."""

    def __init__(self, output: Output, server_version: str) -> None:
        self._output = output
        self._server_version = server_version
        self._refreshes = False
        self._asked = False
        self._expires_ms = math.inf
        self._is_proxied = False
        self._original = ""
        self.deadline = math.inf

    def __repr__(self) -> str:
        state = "asked for another proof" if self._asked else f"expires at {self._expires_ms} ms"
        return f"<Authentication {state}, next look at {self.deadline}>"

    def begin(self, command: pb.CommandConnect) -> None:
        """CONNECT brings the first proof."""
        self._refreshes = command.feature_flags.supports_auth_refresh
        self._is_proxied = command.HasField("proxy_version")
        self._original = text_of(command.original_principal, "original_principal")
        method = text_of(command.auth_method_name, "auth_method_name")
        self._output.do(Authenticate(method, command.auth_data, self._original))

    def misplaced(self, caller: Caller, authorizer: Authorizer) -> str:
        """Why somebody who has proved a role does not come in so all the same; empty if he
        does."""
        if not authorizer.enabled:
            return ""
        if authorizer.flaw(caller):
            return INVALID_ROLES
        if self._is_proxied and not authorizer.is_proxy(caller.role):
            return NO_PROXY
        return ""

    def answered(self, command: pb.CommandAuthResponse) -> None:
        """AUTH_RESPONSE brings another; one that nobody asked for says nothing."""
        if not self._asked:
            return
        response = command.response
        method = text_of(response.auth_method_name, "auth_method_name")
        self._output.do(Authenticate(method, response.auth_data, self._original))

    def held(self, event: Authenticated) -> None:
        """The proof holds; :meth:`tick` is to say how long that may go without a look."""
        self._asked = False
        self._expires_ms = event.expires_ms
        self.deadline = math.inf if event.expires_ms == math.inf else self._output.now

    def tick(self, clock_ms: int) -> str:
        """Time passed: ask for another proof if it is due. Returns why the connection must end,
        if it must."""
        if self._output.now < self.deadline:
            return ""
        left_s = (self._expires_ms - clock_ms) / 1000
        if left_s > 0 and not self._asked:
            self.deadline = self._output.now + min(left_s, LOOK_S)
            return ""
        if self._asked or not self._refreshes:
            return "the proof of the client's identity has ended"
        self._asked = True
        self.deadline = self._output.now + ANSWER_WITHIN_S
        version = self._output.client.version
        self._output.send(commands.auth_challenge(self._server_version, version))
        return ""


def not_allowed(output: Output, text: str) -> None:
    """The proof holds, and is not enough: say so, and end."""
    output.send(commands.error(commands.NO_REQUEST, pb.AuthorizationError, text))
    output.do(Close(f"the client may not come in: {text}"))


def refused(output: Output, text: str) -> None:
    """The proof does not hold: say so, and end."""
    output.send(commands.error(commands.NO_REQUEST, pb.AuthenticationError, text))
    output.do(Close("the client could not prove who it is"))
