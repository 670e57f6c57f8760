"""Mutants of both protocols: what one client may make the broker hold, and which clients are
admitted."""

from typing import Final

from tests.mutants.table import CORE, Mutant

PULSAR: Final = "pulsar_frontend/arneb_pulsar/"
AMQP: Final = "amqp_frontend/arneb_amqp/"
BROKER: Final = "broker/arneb/"
PASSWORD_TESTS: Final = ("tests/pulsar_frontend/authentication/test_passwords.py",)
BODY_TESTS: Final = ("tests/broker/http/server/test_bodies.py",)
HTTP_TESTS: Final = ("tests/broker/http/server/test_server.py",)
PLAIN_TESTS: Final = ("tests/broker/http/server/test_plain.py",)
PACE_TESTS: Final = ("tests/broker/http/server/test_pace.py",)
ROOM_TESTS: Final = ("tests/pulsar_frontend/server/test_listings.py",)

STOP_TESTS: Final = ("tests/core/engine/test_engine_stops.py",)

PROTOCOL_MUTANTS: Final = (
    Mutant(
        "ten thousand tiny chunks of a body are read in one turn",
        BROKER + "http/server/connection.py",
        "                    if count % PIECES_A_UNIT == 0:\n",
        "                    if count < 0:\n",
        BODY_TESTS,
    ),
    Mutant(
        "a request that says its length in two ways may hide another",
        BROKER + "http/server/refused.py",
        '    if b"transfer-encoding" in names and ',
        "    if not names and ",
        BODY_TESTS,
    ),
    Mutant(
        "all requests of a read are answered, whether there is room or not",
        PULSAR + "server/connection.py",
        "self._clock.wall_ms()))\n            if self._must_pause():\n",
        "self._clock.wall_ms()))\n            if False:\n",
        ROOM_TESTS,
    ),
    Mutant(
        "lists are made without room for them",
        PULSAR + "server/listings.py",
        "            await self._connection.room()\n            pattern = effect.pattern\n",
        "            pattern = effect.pattern\n",
        ROOM_TESTS,
    ),
    Mutant(
        "messages are got whether their client reads or not",
        AMQP + "server/operations/effects.py",
        "                            await self._connection.room()\n",
        "                            pass\n",
        ("tests/amqp_frontend/server/test_room.py",),
    ),
    Mutant(
        "a body may be as large as its client likes",
        BROKER + "http/server/connection.py",
        "                    if len(body) + len(event.data) > bytes_max:\n",
        "                    if False:\n",
        HTTP_TESTS,
    ),
    Mutant(
        "a reason begins headers of its own",
        BROKER + "http/server/asgi.py",
        '    printable = (each if " " <= each <= "~" else "?" '
        "for each in reason[:PHRASE_CHARS_MAX])\n",
        "    printable = reason[:PHRASE_CHARS_MAX]\n",
        ("tests/broker/http/api/test_app.py",),
    ),
    Mutant(
        "a slow body is waited for forever",
        BROKER + "http/server/connection.py",
        "        with trio.move_on_after(self._limits.body_timeout_s) as patience:\n",
        '        with trio.move_on_after(float("inf")) as patience:\n',
        HTTP_TESTS,
    ),
    Mutant(
        "unread bodies are not bounded",
        BROKER + "http/server/room.py",
        "        while self.bytes > share.bytes and self.bytes + size > self.bytes_max:\n",
        "        while False:\n",
        HTTP_TESTS,
    ),
    Mutant(
        "unread answers are not bounded",
        BROKER + "http/server/room.py",
        "        while self.bytes > self.bytes_max and self._cut_longest(share, 0.0)",
        "        while False and self._cut_longest(share, 0.0)",
        HTTP_TESTS,
    ),
    Mutant(
        "a slow reader is taken for one that does not read",
        BROKER + "http/server/connection.py",
        "                await self._stream.send_all(view[start : start + PIECE_BYTES])\n"
        "            self._room.moved(self._share)\n",
        "                await self._stream.send_all(view[start : start + PIECE_BYTES])\n",
        HTTP_TESTS,
    ),
    Mutant(
        "what an application holds of an answer is not counted",
        BROKER + "http/server/connection.py",
        "        self._room.add(self._share, len(piece) + left)\n",
        "        self._room.add(self._share, len(piece))\n",
        HTTP_TESTS,
    ),
    Mutant(
        "long answers are made all at once",
        BROKER + "http/server/connection.py",
        "        await self._room.begin_long(self._share)\n        self._is_long = True\n",
        "",
        HTTP_TESTS,
    ),
    Mutant(
        "an unread long answer keeps others from being made",
        BROKER + "http/server/connection.py",
        "        self._end_long()\n        self._room.give_back(self._share)\n"
        "        self._move(State.WRITING)\n",
        "        self._room.give_back(self._share)\n        self._move(State.WRITING)\n",
        HTTP_TESTS,
    ),
    Mutant(
        "a client that waits for a long answer keeps its place",
        BROKER + "http/server/connection.py",
        "        self._move(State.WAITING)\n",
        "",
        HTTP_TESTS,
    ),
    Mutant(
        "a crowd that sends at once makes one long pass",
        BROKER + "http/server/pace.py",
        "        if self._left > 0 and not any(self._waiting.values()):\n",
        "        if True:\n",
        PACE_TESTS,
    ),
    Mutant(
        "a client that drips a request waits until all others have been served",
        BROKER + "http/server/pace.py",
        "            self._let_in(lane, left)\n",
        "            self._let_in(lane, 0)\n",
        PACE_TESTS,
    ),
    Mutant(
        "a client that left the queue is admitted",
        BROKER + "http/server/pace.py",
        "            del tasks[task]\n",
        "            pass\n",
        PACE_TESTS,
    ),
    Mutant(
        "a client that has sent everything and waits for us is cut off for new ones",
        BROKER + "http/server/connection.py",
        "        self._is_in_line = True\n",
        "        self._is_in_line = False\n",
        HTTP_TESTS,
    ),
    Mutant(
        "clients with a request wait behind those that have only connected",
        BROKER + "http/server/server.py",
        "        if END_OF_HEAD in stream.has_come(HEAD_SEEN_BYTES):\n            return True\n",
        "",
        PLAIN_TESTS,
    ),
    Mutant(
        "all clients that have only connected are begun with at once",
        BROKER + "http/server/server.py",
        "            await self._pace.begin(Lane.COMING)\n",
        "            pass\n",
        PLAIN_TESTS,
    ),
    Mutant(
        "any number of clients may wait to be begun with",
        BROKER + "http/server/server.py",
        "        if self._coming >= self._limits.connections_max:\n            return False\n",
        "",
        PLAIN_TESTS,
    ),
    Mutant(
        "checking for data consumes it, in the HTTP server",
        CORE + "api/connections/plain_stream.py",
        "            return self._socket.recv(max_bytes, socket.MSG_PEEK)\n",
        "            return self._socket.recv(max_bytes)\n",
        PLAIN_TESTS,
    ),
    Mutant(
        "all clients that are too late are answered in one pass",
        BROKER + "http/server/connection.py",
        "        await self._pace.begin(Lane.PART)\n        return too_late(",
        "        return too_late(",
        PLAIN_TESTS,
    ),
    Mutant(
        "a waiting client is not told that the stream is closed",
        CORE + "api/connections/plain_stream.py",
        "            trio.lowlevel.notify_closing(self._socket)\n",
        "",
        PLAIN_TESTS,
    ),
    Mutant(
        "a client that transfers much does so in one turn",
        CORE + "api/connections/plain_stream.py",
        "        if self._turn_bytes >= TURN_BYTES:\n",
        "        if False:\n",
        PLAIN_TESTS,
    ),
    Mutant(
        "all requests of a client are answered in one turn",
        BROKER + "http/server/connection.py",
        "                    await trio.lowlevel.checkpoint()  # one question a turn\n",
        "",
        PLAIN_TESTS,
    ),
    Mutant(
        "a small answer uses the queue for long ones",
        BROKER + "http/server/connection.py",
        "        if self._is_long:  # else the next piece is the last, or nearly\n",
        "        if True:\n",
        HTTP_TESTS,
    ),
    Mutant(
        "an answer pauses after its last piece",
        BROKER + "http/management/requests/written.py",
        "        if start:\n            await between_pieces()\n",
        "        await between_pieces()\n",
        ("tests/broker/http/management/lists/test_lists.py",),
    ),
    Mutant(
        "a short password waits for a thread",
        "core/arneb_core/access/internal.py",
        "if len(password) <= SHORT_CHARACTERS:",
        "if False:",
        ("tests/core/access/test_authority.py",),
    ),
    Mutant(
        "a long password blocks the loop",
        "core/arneb_core/access/internal.py",
        "if len(password) <= SHORT_CHARACTERS:",
        "if True:",
        ("tests/core/access/test_authority.py",),
    ),
    Mutant(
        "each new client at a full port has all busy ones checked",
        BROKER + "http/server/server.py",
        "        if connection in self.connections and connection.waits:\n",
        "        if connection in self.connections:\n",
        HTTP_TESTS,
    ),
    Mutant(
        "a small body waits for clients that do not read",
        BROKER + "http/server/connection.py",
        "                    if len(body) + len(event.data) <= PIECE_BYTES:\n",
        "                    if False:\n",
        HTTP_TESTS,
    ),
    Mutant(
        "a client that does not read an old page keeps others from a new one",
        BROKER + "http/server/pages.py",
        "                    reader.scope.cancel()\n",
        "                    pass\n",
        ("tests/broker/http/api/test_app.py",),
    ),
    Mutant(
        "a client that holds nothing is checked forever",
        BROKER + "http/server/room.py",
        "        if not size:\n            return\n        if not share.bytes:\n",
        "        if not share.bytes:\n",
        HTTP_TESTS,
    ),
    Mutant(
        "clients of large answers cut one another off",
        BROKER + "http/server/room.py",
        "            is_patient = needed or share.patience_s > 0\n",
        "            is_patient = share.patience_s > 0\n",
        HTTP_TESTS,
    ),
    Mutant(
        "a token alone admits nobody to the management API",
        BROKER + "http/management/login.py",
        '        return "", proof.strip()\n',
        "        raise refused()\n",
        ("tests/broker/logins/test_backends.py",),
    ),
    Mutant(
        "one connection is accepted in each pass of the loop",
        BROKER + "listening/accepting.py",
        "                self._take_more()\n",
        "",
        ("tests/broker/listening/test_accepting.py",),
    ),
    Mutant(
        "a list of very many does not wait for its turn",
        BROKER + "http/management/lists/lists.py",
        "        await long_answer()\n",
        "        pass\n",
        ("tests/broker/http/management/lists/test_lists.py",),
    ),
    Mutant(
        "a stop writes the cursor of every idle queue",
        "core/arneb_core/engine/engine.py",
        "                if subscription.durable and not subscription.machine.is_stored:\n",
        "                if subscription.durable:\n",
        STOP_TESTS,
    ),
    Mutant(
        "what is suspect after a crash is no longer after the next stop",
        "core/arneb_core/engine/catalog/catalog.py",
        "label=label, is_stored=suspect <= stored\n",
        "label=label, is_stored=True\n",
        STOP_TESTS,
    ),
    Mutant(
        "an invalid hash is taken for the password",
        PULSAR + "authentication/passwords.py",
        "            right = hashed is not None and self._context.verify(password, hashed)\n",
        "            right = hashed is not None and self._context.verify(password, hashed)\n"
        "            right = right or any(\n"
        "                each.user == name and password for each in self.shut_out\n"
        "            )\n",
        PASSWORD_TESTS,
    ),
    Mutant(
        "plain passwords count as a kind of hash",
        PULSAR + "authentication/passwords.py",
        '    "bcrypt", "sha256_crypt",',
        '    "plaintext", "bcrypt", "sha256_crypt",',
        PASSWORD_TESTS,
    ),
    Mutant(
        "figures are open to strangers",
        BROKER + "http/access/guarded.py",
        '        if scope["path"] in self._open_paths or await self._admits(scope):\n',
        "        if True:\n",
        ("tests/broker/listening/test_access.py",),
    ),
    Mutant(
        "while no user is named nobody is authenticated",
        BROKER + "http/access/guarded.py",
        "        if not (self._authenticator.asks or self._users):\n",
        "        if not (self._authenticator.asks or self._has_named()):\n",
        ("tests/broker/listening/test_access.py",),
    ),
    Mutant(
        "guest reads the data API beside named users",
        BROKER + "http/access/guarded.py",
        "        if is_guest and (self._has_named() or self._authenticator.asks):\n",
        "        if is_guest and self._authenticator.asks:\n",
        ("tests/broker/listening/test_access.py",),
    ),
)
