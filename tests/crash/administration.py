"""Kills a broker while it is administered: every change must be done or not done, and nothing else.

An administrator makes one change after the other through the management API: users, their tags and
passwords, permissions for vhosts and for routing keys, vhosts, policies of both kinds, parameters,
limits, queues, exchanges and bindings, and whole definitions with hundreds of objects. The broker
is killed at random instants. Afterwards, every change that was answered must be there, field by
field; one that was not may be there completely or not at all. In an import of definitions, the
users, vhosts, permissions, parameters and policies are one change; of the queues, exchanges and
bindings only some may be there, each complete. The test suite runs a short form; by hand, from the
repository's root::

    python -m tests.crash.administration --kills 100
"""

import asyncio
import random
import sys
import threading
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from http.client import HTTPException
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from conformance.brokers.arneb import Arneb, run_arneb
from conformance.brokers.process import BrokerFailed
from conformance.management.client import Client
from tests.crash.administered import (
    CATALOGUE,
    TOPOLOGY,
    State,
    imported,
    state_of,
    without_user,
    without_vhost,
)
from tests.crash.command_line import parser_of, play

USERS: Final = tuple(f"u{number}" for number in range(5))
VHOSTS: Final = tuple(f"v/{number}" for number in range(3))
NAMES: Final = ("a", "b c", "d/e")
LIFE_S_MAX: Final = 1.2
"""The broker is killed at most this long after it became ready, in seconds."""

HASHES: Final = (
    "KfOQms8bmaZS7/fdXsYYgOiSfOgm8oCh1YSKWvl1fLiAIRa3",
    "OqSTSkKyB8Zvbzo0xRhcLQrdX0cFl0aG3VJQ0ZJmPgPYKv6u",
)

Change = tuple[str, str, str, Any, Callable[[State], State]]
"""A kind of change; the method, path and body of its request; and a function from the state before
to the state after it."""


class PromiseBroken(Exception):
    """Something is there in part, or missing, or was never requested."""


class Administrator:
    """Decides what is changed next."""

    def __init__(self, dice: random.Random) -> None:
        self._dice = dice
        self._number = 0

    def __repr__(self) -> str:
        return f"<Administrator after {self._number} changes>"

    def next(self, state: State) -> Change:
        """A change that is possible in this state."""
        while True:
            self._number += 1
            found = self._dice.choice(_KINDS)(self, state)
            if found is not None:
                return found

    # One method for each kind of change; None if such a change is not possible now.

    def _user(self, state: State) -> Change | None:
        name = self._dice.choice(USERS)
        tags = self._dice.sample(["management", "monitoring", "x"], self._dice.randrange(3))
        body = {"password_hash": self._dice.choice(HASHES), "tags": tags}
        limits = dict(state.get(("users", name), {"limits": {}})["limits"])
        made = {"password_hash": body["password_hash"], "tags": sorted(tags), "limits": limits}
        return self._put("user", f"users/{name}", body, ("users", name), made)

    def _delete_user(self, state: State) -> Change | None:
        name = self._dice.choice(USERS)
        if ("users", name) not in state:
            return None
        path = f"users/{name}"
        return "user deleted", "DELETE", path, None, lambda old: without_user(old, name)

    def _delete_users(self, state: State) -> Change | None:
        names = [each for each in USERS if ("users", each) in state][:2]
        if len(names) < 2:
            return None

        def apply(old: State) -> State:
            return without_user(without_user(old, names[0]), names[1])

        return "users deleted", "POST", "users/bulk-delete", {"users": names}, apply

    def _permission(self, state: State) -> Change | None:
        user, vhost = self._dice.choice(USERS), self._some_vhost(state)
        key, path = ("permissions", vhost, user), f"permissions/{_q(vhost)}/{user}"
        if ("users", user) not in state:
            return None
        if key in state and self._dice.random() < 0.4:
            return self._delete("permission", path, key)
        body = {"configure": f"^{self._number}", "write": "", "read": ".*"}
        return self._put("permission", path, body, key, body)

    def _topic_permission(self, state: State) -> Change | None:
        user, vhost = self._dice.choice(USERS), self._some_vhost(state)
        if ("users", user) not in state:
            return None
        key = ("topic_permissions", vhost, user, "amq.topic")
        path = f"topic-permissions/{_q(vhost)}/{user}"
        if key in state and self._dice.random() < 0.4:
            return self._delete("topic permission", f"{path}/amq.topic", key)
        rights = {"write": f"^{self._number}", "read": "{username}"}
        return self._put("topic permission", path, {"exchange": "amq.topic", **rights}, key, rights)

    def _vhost(self, state: State) -> Change | None:
        name = self._dice.choice(VHOSTS)
        key = ("vhosts", name)
        if key in state and self._dice.random() < 0.5:
            path = f"vhosts/{_q(name)}"
            return "vhost deleted", "DELETE", path, None, lambda old: without_vhost(old, name)
        body = {"description": f"d{self._number}", "tags": ["t"], "default_queue_type": "quorum"}
        more: State = {} if key in state else {("permissions", name, "guest"): _ALL}

        def apply(old: State) -> State:
            return {**old, key: body, **more}

        return "vhost", "PUT", f"vhosts/{_q(name)}", body, apply

    def _policy(self, state: State) -> Change | None:
        vhost, name = self._some_vhost(state), self._dice.choice(NAMES)
        key, path = ("policies", vhost, name), f"policies/{_q(vhost)}/{_q(name)}"
        if key in state and self._dice.random() < 0.4:
            return self._delete("policy", path, key)
        body = {"pattern": "^q", "apply-to": "queues", "priority": self._number,
                "definition": {"max-length": self._number}}  # fmt: skip
        return self._put("policy", path, body, key, body)

    def _operator_policy(self, state: State) -> Change | None:
        vhost, name = self._some_vhost(state), self._dice.choice(NAMES)
        key = ("parameters", vhost, "operator_policy", name)
        path = f"operator-policies/{_q(vhost)}/{_q(name)}"
        if key in state and self._dice.random() < 0.4:
            return self._delete("operator policy", path, key)
        body = {"pattern": "^q", "apply-to": "queues", "priority": 1,
                "definition": {"max-length": self._number}}  # fmt: skip
        return self._put("operator policy", path, body, key, body)

    def _parameter(self, state: State) -> Change | None:
        vhost, name = self._some_vhost(state), self._dice.choice(NAMES)
        key = ("parameters", vhost, "federation-upstream", name)
        path = f"parameters/federation-upstream/{_q(vhost)}/{_q(name)}"
        if key in state and self._dice.random() < 0.4:
            return self._delete("parameter", path, key)
        value = {"uri": "amqp://x", "max-hops": self._number}
        return self._put("parameter", path, {"value": value}, key, value)

    def _global_parameter(self, state: State) -> Change | None:
        name = self._dice.choice(NAMES)
        key, path = ("global_parameters", name), f"global-parameters/{_q(name)}"
        if key in state and self._dice.random() < 0.4:
            return self._delete("global parameter", path, key)
        value = {"n": self._number}
        return self._put("global parameter", path, {"value": value}, key, value)

    def _vhost_limit(self, state: State) -> Change | None:
        vhost = self._some_vhost(state)
        key, path = ("parameters", vhost, "vhost-limits", "limits"), f"vhost-limits/{_q(vhost)}"
        old = state.get(key, {})
        value = {**old, "max-queues": 1000 + self._number}
        body = {"value": value["max-queues"]}
        return self._put("vhost limit", f"{path}/max-queues", body, key, value)

    def _user_limit(self, state: State) -> Change | None:
        name = self._dice.choice(USERS)
        row = state.get(("users", name))
        if row is None:
            return None
        value = {**row["limits"], "max-channels": self._number}
        body, path = {"value": self._number}, f"user-limits/{name}/max-channels"
        return self._put("user limit", path, body, ("users", name), {**row, "limits": value})

    def _queue(self, state: State) -> Change | None:
        vhost, name = self._some_vhost(state), f"q{self._dice.randrange(6)}"
        key, path = ("queues", vhost, name), f"queues/{_q(vhost)}/{name}"
        if key in state:
            gone = [key, *(each for each in state if each[0] == "bindings" and each[1] == vhost
                           and each[3:5] == ("queue", name))]  # fmt: skip
            return "queue deleted", "DELETE", path, None, lambda old: _less(old, gone)
        arguments: dict[str, Any] = {"x-max-length": self._number}
        kind = state[("vhosts", vhost)]["default_queue_type"]
        if kind in ("classic", "quorum"):  # the declaration of a queue includes its type
            arguments["x-queue-type"] = kind
        body = {"durable": True, "auto_delete": False, "arguments": arguments}
        return self._put("queue", path, body, key, body)

    def _exchange(self, state: State) -> Change | None:
        vhost, name = self._some_vhost(state), f"x{self._dice.randrange(3)}"
        key, path = ("exchanges", vhost, name), f"exchanges/{_q(vhost)}/{name}"
        if key in state:
            gone = [key, *(each for each in state if each[0] == "bindings" and each[1:3] ==
                           (vhost, name))]  # fmt: skip
            return "exchange deleted", "DELETE", path, None, lambda old: _less(old, gone)
        body = {"type": "topic", "durable": True, "auto_delete": False, "internal": False,
                "arguments": {}}  # fmt: skip
        return self._put("exchange", path, body, key, body)

    def _binding(self, state: State) -> Change | None:
        ends = [(q[1], x[2], q[2]) for q in state if q[0] == "queues" for x in state
                if x[0] == "exchanges" and x[1] == q[1]]  # fmt: skip
        if not ends:
            return None
        vhost, source, queue = self._dice.choice(ends)
        key = ("bindings", vhost, source, "queue", queue, f"k{self._dice.randrange(3)}")
        path = f"bindings/{_q(vhost)}/e/{source}/q/{queue}"
        if key in state:
            return self._delete("binding", f"{path}/{key[-1]}", key)
        body = {"routing_key": key[-1], "arguments": {}}
        return self._made("binding", "POST", path, body, key, {})

    def _import(self, state: State) -> Change | None:
        document = imported(self._number)
        wanted = state_of(document)

        def apply(old: State) -> State:
            # Existing queues, exchanges and bindings stay as they are.
            new = {key: value for key, value in wanted.items() if key[0] in CATALOGUE}
            return {**wanted, **old, **new}

        return "import", "POST", "definitions", document, apply

    def _some_vhost(self, state: State) -> str:
        return self._dice.choice([key[1] for key in state if key[0] == "vhosts"])

    def _put(self, kind: str, path: str, body: Any, key: Sequence[str], value: Any) -> Change:
        return self._made(kind, "PUT", path, body, key, value)

    def _made(
        self, kind: str, method: str, path: str, body: Any, key: Sequence[str], value: Any
    ) -> Change:
        return kind, method, path, body, lambda old: {**old, tuple(key): value}

    def _delete(self, kind: str, path: str, key: Sequence[str]) -> Change:
        return f"{kind} deleted", "DELETE", path, None, lambda old: _less(old, [tuple(key)])


_ALL: Final = {"configure": ".*", "write": ".*", "read": ".*"}

_KINDS: Final = (
    Administrator._user, Administrator._user, Administrator._delete_user,
    Administrator._delete_users, Administrator._permission, Administrator._permission,
    Administrator._topic_permission, Administrator._vhost, Administrator._vhost,
    Administrator._policy, Administrator._operator_policy, Administrator._parameter,
    Administrator._global_parameter, Administrator._vhost_limit, Administrator._user_limit,
    Administrator._queue, Administrator._queue, Administrator._exchange, Administrator._binding,
    Administrator._import, Administrator._import,
)  # fmt: skip


def _q(name: str) -> str:
    return quote(name, safe="")


def _less(state: State, keys: Sequence[tuple[str, ...]]) -> State:
    gone = set(keys)
    return {key: value for key, value in state.items() if key not in gone}


class Run:
    """The lives of one broker."""

    def __init__(self, directory: Path, seed: int) -> None:
        self._broker = Arneb(directory, listeners=("amqp", "http"))
        self._dice = random.Random(seed)
        self._administrator = Administrator(random.Random(seed + 1))
        self._killed = threading.Event()
        self.done: Counter[str] = Counter()
        self.cut: Counter[str] = Counter()
        """Changes that a kill interrupted, by kind and by whether they were done. (``done`` counts
        those that were answered.)"""

    async def kill_times(self, kills: int) -> None:
        """Kill the broker that often. Raises :class:`PromiseBroken` or :class:`BrokerFailed`."""
        self._broker.start()
        state = self._shown()
        for _ in range(kills):
            state = await asyncio.to_thread(self._life, state)
        self._broker.stop()
        checked = run_arneb("check", str(self._broker.data))
        if checked.returncode:
            raise PromiseBroken(checked.stdout)
        print("answered:", dict(sorted(self.done.items())))
        print("cut off:", dict(sorted(self.cut.items())))
        if not self.cut:
            raise PromiseBroken("nothing was tested: no change was cut off")

    def end(self) -> None:
        self._broker.kill()

    def _life(self, state: State) -> State:
        """Make changes until the kill; the result is the state found after it."""
        self._killed.clear()
        timer = threading.Timer(self._dice.uniform(0.02, LIFE_S_MAX), self._kill)
        timer.start()
        client = Client(self._broker.http_address)
        while True:
            kind, method, path, body, apply = self._administrator.next(state)
            after = apply(state)
            try:
                answer = client.call(method, path, body)
            except (OSError, HTTPException):
                if not self._killed.wait(10):
                    raise
                break
            if answer.status >= 300:
                raise PromiseBroken(f"{method} {path} {body}: {answer.status} {answer.body!r}")
            self.done[kind] += 1
            state = after
        timer.join()
        if self._dice.random() < 0.15:
            self._broker.spawn()
            threading.Event().wait(self._dice.uniform(0, 0.8))
            self._broker.kill()
        self._broker.start()
        found = self._shown()
        self._judge(kind, state, after, found)
        return found

    def _kill(self) -> None:
        self._broker.kill()
        self._killed.set()

    def _shown(self) -> State:
        answer = Client(self._broker.http_address).call("GET", "definitions")
        assert answer.status == 200, answer
        return state_of(answer.json)

    def _judge(self, kind: str, before: State, after: State, found: State) -> None:
        """Check the state after a change of this ``kind`` was interrupted: everything else must be
        as it was answered."""
        for whole in (after, before):
            if found == whole:
                self.cut[f"{kind}, {'done' if whole is after else 'not done'}"] += 1
                return
        if kind != "import":
            raise PromiseBroken(f"{kind} was cut off: {_difference(before, after, found)}")
        own, some = _part(found, CATALOGUE), _part(found, TOPOLOGY)
        old, new = _part(before, TOPOLOGY), _part(after, TOPOLOGY)
        has_begun = own == _part(after, CATALOGUE)
        is_whole = has_begun or (own == _part(before, CATALOGUE) and some == old)
        if not is_whole or not old.items() <= some.items() <= new.items():
            raise PromiseBroken(f"import was cut off: {_difference(before, after, found)}")
        self.cut["import, in part"] += 1


def _part(state: State, kinds: Collection[str]) -> State:
    return {key: value for key, value in state.items() if key[0] in kinds}


def _difference(before: State, after: State, found: State) -> str:
    keys = {*before, *after, *found}
    rows = [
        f"{key}: {before.get(key)} -> {after.get(key)}, found {found.get(key)}"
        for key in sorted(keys)
        if not before.get(key) == after.get(key) == found.get(key)
    ]
    return "\n".join(rows[:40])


def main(arguments: Sequence[str] | None = None) -> int:
    """Run it; the exit status is 0 if every promise was kept."""
    parser = parser_of("python -m tests.crash.administration", __doc__ or "")
    options = parser.parse_args(arguments)
    return play(parser, options, Run, (PromiseBroken, BrokerFailed))


if __name__ == "__main__":
    sys.exit(main())
