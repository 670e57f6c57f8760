"""Mutants of a cluster whose clients can reach any node.

The rule: as in :mod:`tests.mutants.table`.
"""

from typing import Final

from tests.mutants.table import Mutant

ROUTING: Final = "cluster/arneb_cluster/routing/"
TESTS: Final = "tests/cluster/routing/"
HEADS_TESTS: Final = (TESTS + "test_frame_heads.py",)
RELAY_TESTS: Final = (TESTS + "test_relay.py",)
RELAYING_TESTS: Final = (TESTS + "test_relaying.py",)
PROTOCOL_TESTS: Final = (TESTS + "test_internal_protocol.py",)
PORT_TESTS: Final = (TESTS + "test_internal_port.py",)
AMQP_TESTS: Final = (TESTS + "test_carried_amqp.py",)
PULSAR_TESTS: Final = (TESTS + "test_carried_pulsar.py",)
HTTP_TESTS: Final = (TESTS + "test_routed_http.py",)
DOCUMENT_TESTS: Final = ("tests/amqp_frontend/server/admission/test_admission_document.py",)
OPENING_TESTS: Final = ("tests/amqp_frontend/wire/test_opening.py",)

UNPROVED: Final = (
    "        if not hmac.compare_digest(proof, expected):\n"
    "            raise ProtocolBroken("
    '"expected a proof of the cluster\'s secret, got another one")\n'
)

ROUTING_MUTANTS: Final = (
    Mutant(
        "a frame's end octet is not counted, and boundaries are one byte off",
        ROUTING + "frame_heads.py",
        "OVERHEAD_BYTES: Final = HEAD_BYTES + 1\n",
        "OVERHEAD_BYTES: Final = HEAD_BYTES\n",
        HEADS_TESTS,
    ),
    Mutant(
        "a header that arrived in two pieces is forgotten",
        ROUTING + "frame_heads.py",
        "            data = self._head + data\n",
        "",
        HEADS_TESTS,
    ),
    Mutant(
        "a wrong end octet is taken for a boundary",
        ROUTING + "frame_heads.py",
        "        self.is_lost = octet != END\n",
        "        self.is_lost = False\n",
        HEADS_TESTS,
    ),
    Mutant(
        "half a close counts as a whole one",
        ROUTING + "frame_heads.py",
        "                self._coming = _CLOSE_METHODS.get(ids, CloseMethod.NONE)\n",
        "                self.close_method = _CLOSE_METHODS.get(ids, self.close_method)\n",
        HEADS_TESTS,
    ),
    Mutant(
        "a client is sent a close inside half a frame",
        ROUTING + "relay.py",
        " or not self.down.at_border:\n",
        ":\n",
        RELAY_TESTS,
    ),
    Mutant(
        "a leader that died is taken for one that closed",
        ROUTING + "relay.py",
        "        if self._has_goodbye or self._kind is Kind.PLAIN:\n            self._move",
        "        if True:\n            self._move",
        RELAY_TESTS,
    ),
    Mutant(
        "what a lost leader still sends goes on to the client",
        ROUTING + "relay.py",
        "        if self.state is not RelayState.CARRYING:\n            return []\n"
        "        if self._kind is Kind.FRAMED:\n            self.down",
        "        if self._kind is Kind.FRAMED:\n            self.down",
        RELAY_TESTS,
    ),
    Mutant(
        "a close is answered by the end of the socket before it is read",
        ROUTING + "relaying.py",
        "        self._all.deadline = trio.current_time() + FAREWELL_S\n",
        "        self._all.cancel()\n",
        RELAYING_TESTS,
    ),
    Mutant(
        "a client that does not answer is waited for without end",
        ROUTING + "relaying.py",
        "        self._all.deadline = trio.current_time() + FAREWELL_S\n",
        "",
        RELAYING_TESTS,
    ),
    Mutant(
        "a leader that hangs with a full socket holds its clients",
        ROUTING + "relaying.py",
        "        self._hearing.cancel()\n        self._hush()\n",
        "        self._hearing.cancel()\n",
        RELAYING_TESTS,
    ),
    Mutant(
        "a client that has sent its end receives nothing more",
        ROUTING + "relaying.py",
        "                await self._say(relay.client_ended())\n                break\n",
        "                self._all.cancel()\n                break\n",
        RELAYING_TESTS,
    ),
    Mutant(
        "any number of clients is relayed",
        ROUTING + "relaying.py",
        "        if self._places >= self._carried_max:\n",
        "        if False:\n",
        RELAYING_TESTS,
    ),
    Mutant(
        "a node's proof is not checked by the one that asks",
        ROUTING + "internal_protocol.py",
        UNPROVED + "        self.leader",
        "        self.leader",
        PROTOCOL_TESTS,
    ),
    Mutant(
        "a node that asks is believed without a proof",
        ROUTING + "internal_protocol.py",
        UNPROVED + "        self.node",
        "        self.node",
        PROTOCOL_TESTS,
    ),
    Mutant(
        "a recorded proof is valid forever",
        ROUTING + "internal_port.py",
        "settings.node, token_bytes(NONCE_BYTES))\n",
        "settings.node, bytes(NONCE_BYTES))\n",
        PORT_TESTS,
    ),
    Mutant(
        "requests are not authenticated",
        ROUTING + "internal_protocol.py",
        '        return hmac.digest(self.value, pack(side, VERSION, *parts), "sha256")\n',
        '        return hmac.digest(self.value, pack(side, VERSION, *parts[:4]), "sha256")\n',
        PROTOCOL_TESTS,
    ),
    Mutant(
        "a record of any size is waited for",
        ROUTING + "internal_protocol.py",
        "        if size > size_max:\n",
        "        if False:\n",
        PROTOCOL_TESTS,
    ),
    Mutant(
        "a stranger may stay silent for as long as it likes",
        ROUTING + "internal_port.py",
        "                with trio.fail_after(PROVE_S):\n",
        "                with trio.fail_after(3600):\n",
        PORT_TESTS,
    ),
    Mutant(
        "TLS does not require a client certificate",
        ROUTING + "internal_settings.py",
        "        context.verify_mode = ssl.CERT_REQUIRED\n",
        "",
        PORT_TESTS,
    ),
    Mutant(
        "a former leader accepts clients all the same",
        "broker/arneb/clustered/ports/routing.py",
        "        if not isinstance(self._placements.of(namespace), Here):\n"
        "            raise NotServed(f\"node '{self._node}' does not lead {namespace}\")\n",
        "",
        PORT_TESTS,
    ),
    Mutant(
        "relayed clients stay with a former leader",
        ROUTING + "onward.py",
        "            if self._placements.of(namespace) != placement:\n"
        "                carried.lose(CHANGED)\n",
        "            pass\n",
        AMQP_TESTS,
    ),
    Mutant(
        "clients are sent away at once while nobody leads",
        "core/arneb_core/api/nodes/placement.py",
        "                    scope.deadline = began + min(wait_s, longest_s)\n",
        "                    scope.deadline = began\n",
        AMQP_TESTS,
    ),
    Mutant(
        "a relayed client is listed with the address of the relaying node",
        "amqp_frontend/arneb_amqp/server/admission/admission_document.py",
        '        _text(fields, "address"),\n',
        '        "127.0.0.2",\n',
        (*AMQP_TESTS, *DOCUMENT_TESTS),
    ),
    Mutant(
        "data sent after connection.open is lost",
        "amqp_frontend/arneb_amqp/wire/opening.py",
        "        self._held = held[at:]\n",
        '        self._held = b"" if self.is_open else held[at:]\n',
        OPENING_TESTS,
    ),
    Mutant(
        "another method than connection.open ends the handshake",
        "amqp_frontend/arneb_amqp/wire/opening.py",
        "held.startswith(OPEN_METHOD, at + FRAME_START_BYTES)\n",
        "True\n",
        OPENING_TESTS,
    ),
    Mutant(
        "a topic is used at a node that only looks it up",
        "pulsar_frontend/arneb_pulsar/server/requests.py",
        "        if self._endpoint.is_brought:\n"
        "            raise self._context.ownership.refusal(topic)\n",
        "",
        PULSAR_TESTS,
    ),
    Mutant(
        "a consumer attaches where its topic is not served",
        "pulsar_frontend/arneb_pulsar/server/attachments.py",
        "            self._check_owned(effect.topic)\n",
        "",
        PULSAR_TESTS,
    ),
    Mutant(
        "a lookup returns the node that was asked",
        "pulsar_frontend/arneb_pulsar/server/requests.py",
        "        same_way = endpoint.is_through or not (endpoint.is_brought or is_advertised)\n",
        "        same_way = endpoint.is_through or not is_advertised\n",
        PULSAR_TESTS,
    ),
    Mutant(
        "clients are not told where their topic has moved",
        "pulsar_frontend/arneb_pulsar/services/namespaces/ownership.py",
        "            return assigned_to(placement.addresses)\n",
        "            return NOWHERE\n",
        PULSAR_TESTS,
    ),
    Mutant(
        "a broker keeps producers of topics that it no longer serves",
        "pulsar_frontend/arneb_pulsar/services/namespaces/ownership.py",
        "                claim.holder.owner.disconnect(claim.holder.key, assigned)\n",
        "                pass\n",
        PULSAR_TESTS,
    ),
    Mutant(
        "a node answers for itself what another serves",
        "broker/arneb/http/routing/routed.py",
        "        if target.way is Way.OWN:\n",
        "        if target.way is not Way.SENT:\n",
        HTTP_TESTS,
    ),
    Mutant(
        "an answer that breaks off looks complete",
        "broker/arneb/http/routing/asked.py",
        '        raise BrokenOff("the other node\'s answer broke off")\n',
        "        return True\n",
        ("tests/broker/http/routing/test_asked.py",),
    ),
    Mutant(
        "a passed request loses its query",
        "broker/arneb/http/routing/asked.py",
        '    target = raw + b"?" + query if query else raw\n',
        "    target = raw\n",
        HTTP_TESTS,
    ),
    Mutant(
        "headers named by later exchanges do not count",
        "amqp_frontend/arneb_amqp/routing/header_routes.py",
        "        waiting += onwards - seen\n",
        "",
        ("tests/amqp_frontend/routing/test_header_routes.py",),
    ),
    Mutant(
        "messages go where others with another route went",
        "amqp_frontend/arneb_amqp/routing/header_routes.py",
        "        return None if fields is None else self._found.get((route, fields))\n",
        '        return {at: each for (_, at), each in self._found.items()}.get(fields or b"?")\n',
        ("tests/amqp_frontend/routing/test_header_routes.py",),
    ),
    Mutant(
        "a header that a binding names is read without its value",
        "amqp_frontend/arneb_amqp/wire/cutting.py",
        "                found.append(data[at:end])\n",
        "                found.append(data[at:value_at])\n",
        ("tests/amqp_frontend/routing/test_header_routes.py",),
    ),
    Mutant(
        "routes are remembered for headers of any length",
        "amqp_frontend/arneb_amqp/routing/header_routes.py",
        " if fields is None or len(fields) > FIELDS_BYTES_MAX else fields\n",
        " if fields is None else fields\n",
        ("tests/amqp_frontend/routing/test_header_routes.py",),
    ),
    Mutant(
        "routes by headers from before a change of the topology still count",
        "amqp_frontend/arneb_amqp/routing/routes.py",
        "            self.by_headers.forget()\n",
        "",
        ("tests/amqp_frontend/routing/test_header_routes.py",),
    ),
)
