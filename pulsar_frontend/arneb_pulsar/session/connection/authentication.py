"""Authentication: who the client of one connection is, at first and whenever its proof expires.

A client whose proof expires is asked for another by AUTH_CHALLENGE, if it can answer that; it is
closed if it cannot, or does not answer in time. A proxy cannot: it passes on to its client what it
is sent, and the client would answer for itself. A proof expires at a time of day, which is compared
with the clock when it is due and once a minute, since clocks can be set. All other times are the
event loop's.
"""

import math
from typing import Final

from arneb_pulsar.authorization.authorizer import Authorizer
from arneb_pulsar.authorization.callers import Caller
from arneb_pulsar.session.fields import text_of
from arneb_pulsar.session.interface.effects import Authenticate, Close
from arneb_pulsar.session.interface.events import Authenticated
from arneb_pulsar.session.output import Output
from arneb_pulsar.wire import commands
from arneb_pulsar.wire.proto import pulsar_pb2 as pb

INVALID_ROLES: Final = "Invalid roles."
NO_PROXY: Final = "Must not set proxyVersion without connecting as a ProxyRole."

ANSWER_WITHIN_S: Final = 60.0
"""How long a client may take to send another proof; Pulsar's brokers look once a minute."""

CHECK_INTERVAL_S: Final = 60.0
"""Time between looks at the clock: how much too late a proof may end after the clock was set
forward."""


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
        """Have the first proof, from CONNECT, checked."""
        self._refreshes = command.feature_flags.supports_auth_refresh
        self._is_proxied = command.HasField("proxy_version")
        self._original = text_of(command.original_principal, "original_principal")
        method = text_of(command.auth_method_name, "auth_method_name")
        self._output.do(Authenticate(method, command.auth_data, self._original))

    def misplaced(self, caller: Caller, authorizer: Authorizer) -> str:
        """Return why a client that has proved its role may not connect in this way; empty if it
        may."""
        if not authorizer.enabled:
            return ""
        if authorizer.flaw(caller):
            return INVALID_ROLES
        if self._is_proxied and not authorizer.is_proxy(caller.role):
            return NO_PROXY
        return ""

    def answered(self, command: pb.CommandAuthResponse) -> None:
        """Have another proof, from AUTH_RESPONSE, checked; ignore one that nobody asked for."""
        if not self._asked:
            return
        response = command.response
        method = text_of(response.auth_method_name, "auth_method_name")
        self._output.do(Authenticate(method, response.auth_data, self._original))

    def held(self, event: Authenticated) -> None:
        """The proof holds: have :meth:`tick` set when to look at it again."""
        self._asked = False
        self._expires_ms = event.expires_ms
        self.deadline = math.inf if event.expires_ms == math.inf else self._output.now

    def tick(self, clock_ms: int) -> str:
        """Ask for another proof if that is due. Return why the connection must end, if it must."""
        if self._output.now < self.deadline:
            return ""
        left_s = (self._expires_ms - clock_ms) / 1000
        if left_s > 0 and not self._asked:
            self.deadline = self._output.now + min(left_s, CHECK_INTERVAL_S)
            return ""
        if self._asked or not self._refreshes or self._original:
            return "the proof of the client's identity has ended"
        self._asked = True
        self.deadline = self._output.now + ANSWER_WITHIN_S
        version = self._output.client.version
        self._output.send(commands.auth_challenge(self._server_version, version))
        return ""


def not_allowed(output: Output, text: str) -> None:
    """Say that the proof holds but is not enough, and close."""
    output.send(commands.error(commands.NO_REQUEST, pb.AuthorizationError, text))
    output.do(Close(f"the client may not come in: {text}"))


def refused(output: Output, text: str) -> None:
    """Say that the proof does not hold, and close."""
    output.send(commands.error(commands.NO_REQUEST, pb.AuthenticationError, text))
    output.do(Close("the client could not prove who it is"))
