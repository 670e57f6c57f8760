"""Mutants of operation: how a process is controlled, and what it leaves behind.

The rule: as in :mod:`tests.mutants.table`.
"""

from typing import Final

from tests.mutants.table import Mutant

BROKER: Final = "broker/arneb/"
CONTROL_TESTS: Final = ("tests/broker/control/test_serving.py",)
CONFIG_TESTS: Final = ("tests/broker/settings/test_config.py",)
NODE_TESTS: Final = ("tests/broker/node/test_node.py",)
AUDIT_TESTS: Final = ("tests/broker/logs/test_audit_log.py",)
PROGRAM_TESTS: Final = ("tests/broker/ctl/test_program.py",)

STARTED_TESTS: Final = ("tests/broker/servers/test_started.py",)

DOCTOR_TESTS: Final = ("tests/broker/doctor/test_doctor.py",)

OPERATOR_MUTANTS: Final = (
    Mutant(
        "a heartbeat in milliseconds is accepted, and then no client can connect",
        "amqp_frontend/arneb_amqp/config.py",
        '    "heartbeat_s": (0, SHORT_MAX),\n',
        "",
        CONFIG_TESTS,
    ),
    Mutant(
        "a time that is no number is accepted, and ends every connection",
        BROKER + "settings/table.py",
        "    return type(value) is not float or isfinite(value)\n",
        "    return True\n",
        CONFIG_TESTS,
    ),
    Mutant(
        "a store is taken for healthy if another process has its dead broker's number",
        BROKER + "doctor/directory.py",
        "(holder := holder_of(path)) and is_held(path):",
        '(holder := holder_of(path)) and Path(f"/proc/{holder}").exists():',
        DOCTOR_TESTS,
    ),
    Mutant(
        "a directory that cannot be checked ends the doctor with a traceback",
        BROKER + "doctor/directory.py",
        "        found = check(path)\n    except StoreUnusable as refused:\n",
        "        found = check(path)\n    except ForeignDirectory as refused:\n",
        DOCTOR_TESTS,
    ),
    Mutant(
        "a broker that never answers ends the doctor with a traceback",
        BROKER + "commands/doctor.py",
        "        except TimeoutError:\n",
        "        except RecursionError:\n",
        DOCTOR_TESTS,
    ),
    Mutant(
        "a checksum brings its package's command line into every broker",
        "core/arneb_core/api/encoding/checksum.py",
        "    crc32c = _extension().crc32c\n",
        "    from crc32c import crc32c\n",
        STARTED_TESTS,
    ),
    Mutant(
        "every broker searches the installed packages before it meets another's message",
        "core/arneb_core/api/entries/codec.py",
        "from functools import cache\n",
        "from functools import cache\nfrom importlib.metadata import entry_points\n",
        STARTED_TESTS,
    ),
    Mutant(
        "everybody on the machine may open the control socket",
        BROKER + "control/place.py",
        "MODE: Final = 0o600\n",
        "MODE: Final = 0o666\n",
        CONTROL_TESTS,
    ),
    Mutant(
        "the control socket is removed when the broker is stopped",
        BROKER + "node/node.py",
        '            self._say("the broker is stopped, its process keeps running")\n',
        "            return\n",
        (*CONTROL_TESTS, *NODE_TESTS),
    ),
    Mutant(
        "another process may take the directory while the broker is stopped",
        BROKER + "control/place.py",
        "            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)\n",
        "            fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)\n",
        CONTROL_TESTS,
    ),
    Mutant(
        "a process removes the socket of another",
        BROKER + "control/place.py",
        "                if os.path.samestat(os.stat(self._name), os.fstat(self._bound)):\n",
        "                if os.stat(self._name):\n",
        CONTROL_TESTS,
    ),
    Mutant(
        "a running broker is reset",
        BROKER + "node/node.py",
        "        if self.state is not NodeState.STOPPED:\n            raise NotPossible("
        '"expected a broker',
        "        if self.state is NodeState.LEAVING:\n            raise NotPossible("
        '"expected a broker',
        NODE_TESTS,
    ),
    Mutant(
        "a broker that is restarted uses other ports",
        BROKER + "node/node.py",
        "                name: replace(address, port=bound[name][0].port)\n",
        "                name: address\n",
        NODE_TESTS,
    ),
    Mutant(
        "readiness ends only with the process",
        BROKER + "node/node.py",
        "        return self.state is NodeState.RUNNING\n",
        "        return self.state in (NodeState.RUNNING, NodeState.DRAINING)\n",
        (*NODE_TESTS, *CONTROL_TESTS),
    ),
    Mutant(
        "a signal during the opening of the store is ignored",
        "core/arneb_core/api/process/supervision.py",
        "        await trio.lowlevel.checkpoint_if_cancelled()\n",
        "",
        ("tests/core/api/process/test_supervision.py",),
    ),
    Mutant(
        "the audit log shows the whole request body",
        BROKER + "logs/audit_log.py",
        'return {name: _short(value) if name in allowed else "…" for',
        "return {name: _short(value) for",
        AUDIT_TESTS,
    ),
    Mutant(
        "a password is among the fields that the audit log shows",
        BROKER + "logs/audit_log.py",
        '    "users": frozenset({"tags"}),\n',
        '    "users": frozenset({"tags", "password"}),\n',
        AUDIT_TESTS,
    ),
    Mutant(
        "the audit log contains the query of a request",
        BROKER + "http/access/audited.py",
        "            f\"{scope['method']} {raw_path}\", outcome_of(status), status, fields,\n",
        "            f\"{scope['method']} {raw_path}?{scope['query_string'].decode()}\",\n"
        "            outcome_of(status), status, fields,\n",
        AUDIT_TESTS,
    ),
    Mutant(
        "refused requests are not in the audit log",
        BROKER + "http/access/audited.py",
        '            if message["type"] == "http.response.start":\n',
        '            if message["type"] == "http.response.start" and message["status"] < 400:\n',
        AUDIT_TESTS,
    ),
    Mutant(
        "an audit file that was moved away is still written to",
        BROKER + "logs/audit_log.py",
        "            if self._fd < 0 or self._is_moved():\n",
        "            if self._fd < 0:\n",
        AUDIT_TESTS,
    ),
    Mutant(
        "a secret is shown among the settings",
        BROKER + "settings/shown.py",
        "        case str() if is_secret(name) and value:\n            return HIDDEN\n",
        "",
        PROGRAM_TESTS,
    ),
    Mutant(
        "changing a password removes the user's tags",
        BROKER + "ctl/people.py",
        '("password_hash", "hashing_algorithm", "tags")',
        '("password_hash", "hashing_algorithm")',
        PROGRAM_TESTS,
    ),
    Mutant(
        "an unknown key of rabbitmq.conf is ignored",
        BROKER + "settings/rabbitmq/conf.py",
        "    raise KeyError(key)\n",
        '    file.note(key, "it is not known")\n',
        ("tests/broker/settings/rabbitmq/test_conf.py",),
    ),
    Mutant(
        "guest may log in remotely because a file does not mention it",
        BROKER + "settings/rabbitmq/conf.py",
        'is_local = file.user.get("loopback_only", name == "guest")',
        'is_local = file.user.get("loopback_only", False)',
        ("tests/broker/settings/rabbitmq/test_conf.py",),
    ),
    Mutant(
        "systemd is told that a broker is ready before its ports are open",
        BROKER + "node/node.py",
        "                    nursery.start_soon(end_if_broken, core, self._say)\n",
        "                    self._manager.ready()\n"
        "                    nursery.start_soon(end_if_broken, core, self._say)\n",
        NODE_TESTS,
    ),
    Mutant(
        "a node that only follows never collects garbage",
        BROKER + "node/node.py",
        "                await serve_member(config, listeners, self._say, self)",
        "                with starting():\n"
        "                    await serve_member(config, listeners, self._say, self)",
        NODE_TESTS,
    ),
    Mutant(
        "a password is not checked",
        "broker/arneb/http/management/access/users.py",
        "    check_password(site, password)\n",
        "",
        ("tests/broker/http/management/test_objects.py",),
    ),
    Mutant(
        "the doctor says that nothing is lost beside damage",
        "broker/arneb/doctor/directory.py",
        "    if holder and not found:\n",
        "    if holder:\n",
        DOCTOR_TESTS,
    ),
    Mutant(
        "the doctor takes what a power cut leaves behind for damage",
        "broker/arneb/doctor/directory.py",
        " for each in check_store(path) if not each.is_doubt]\n",
        " for each in check_store(path)]\n",
        DOCTOR_TESTS,
    ),
)  # fmt: skip
