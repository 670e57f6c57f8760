"""RabbitMQ as Debian packages it, on a free loopback port with throw-away data.

All its listeners are bound to 127.0.0.1: AMQP, Erlang distribution and an epmd of its own. Only the
plugin of one exchange type is enabled by default, and no management listener.
"""

import secrets
import shutil
import socket
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Self

from conformance.brokers.process import (
    Address,
    OwnProcess,
    Process,
    environment_without,
    free_port,
    wait_until_ready,
)

SERVER = Path("/usr/lib/rabbitmq/bin/rabbitmq-server")
"""The script behind Debian's wrapper; the wrapper would insist on running as the user
``rabbitmq``."""

CONTROL = SERVER.with_name("rabbitmqctl")

READY_WITHIN_S = 180.0
EPMD_WITHIN_S = 5.0

CONTROL_WITHIN_S = 300.0
"""Each command takes two CPU seconds, which may take long on a busy machine."""


class RabbitMQ(OwnProcess):
    """One RabbitMQ node. The same object can be started again on the same data.

    It speaks TLS too if there are ``certificates``: a directory with ``root.crt``, ``server.crt``
    and ``server.key``.
    """

    name = "rabbitmq"

    def __init__(
        self,
        directory: Path,
        certificates: Path | None = None,
        *,
        management: bool = False,
        plugins: Sequence[str] = (),
        settings: str = "",
        joins: "RabbitMQ | None" = None,
    ) -> None:
        """``management`` enables the management API and metrics, and ``plugins`` are further
        plugins. ``settings`` are appended to the generated configuration, where the last value of a
        setting wins. ``joins`` is a running node whose cluster this one joins when it is first
        started."""
        self.management_address = Address("127.0.0.1", free_port()) if management else None
        self.metrics_address = Address("127.0.0.1", free_port()) if management else None
        self.directory = directory
        self._certificates = certificates
        self._plugins = tuple(plugins)
        self._settings = settings
        self._joins = joins
        self._amqps_address = Address("127.0.0.1", free_port())
        self._address = Address("127.0.0.1", free_port())
        self._epmd_port: int = free_port() if joins is None else joins._epmd_port
        self._node = f"arneb-{secrets.token_hex(4)}@localhost"
        self._epmd: Process | None = None

    def __repr__(self) -> str:
        return f"<RabbitMQ {self._node} at {self._address}>"

    @staticmethod
    def installed() -> bool:
        """Whether the server is installed on this machine."""
        return SERVER.exists() and shutil.which("epmd") is not None

    @property
    def address(self) -> Address:
        return self._address

    @property
    def amqps_address(self) -> Address:
        return self._amqps_address

    @property
    def url(self) -> str:
        return f"amqp://guest:guest@{self._address}/%2F"

    def start(self) -> Self:
        home = self.directory
        home.mkdir(parents=True, exist_ok=True)
        cookie = home / ".erlang.cookie"
        is_new = not cookie.exists()
        if is_new:
            cookie.write_text(secrets.token_hex(16) if self._joins is None else self._joins.cookie)
            cookie.chmod(0o400)
            plugins = ["rabbitmq_consistent_hash_exchange", *self._plugins]
            if self.management_address is not None:
                plugins += ["rabbitmq_management", "rabbitmq_prometheus"]
            (home / "plugins").write_text(f"[{','.join(plugins)}].\n")
            (home / "empty.conf").touch()
            (home / "node.conf").write_text(self._configuration())
        environment = self._environment()
        if self._joins is None:
            self._epmd = Process(
                ["epmd", "-address", "127.0.0.1", "-port", str(self._epmd_port)],
                environment,
                home / "epmd.log",
            )
            self._wait_for_epmd()
        self._process = Process([str(SERVER)], environment, home / "console.log")
        wait_until_ready(self._process, self._address, READY_WITHIN_S)
        self._wait_for_boot()
        if is_new and self._joins is not None:
            self.control("stop_app")
            self.control("join_cluster", self._joins._node)
            self.control("start_app")
        return self

    def stop(self) -> None:
        try:
            super().stop()
        finally:
            self._end()

    def kill(self) -> None:
        super().kill()
        self._end()

    def alarm(self, resource: str, on: bool) -> None:
        """Raise or clear an alarm by changing its threshold."""
        watermark = {
            "memory": ("set_vm_memory_high_watermark", "0" if on else "0.9"),
            "disk": ("set_disk_free_limit", str(1 << 60) if on else "0"),
        }
        self.control(*watermark[resource])

    @property
    def cookie(self) -> str:
        """The secret by which the nodes of a cluster recognise each other."""
        return (self.directory / ".erlang.cookie").read_text()

    @property
    def environment(self) -> dict[str, str]:
        """The environment for RabbitMQ's command-line tools."""
        return self._environment()

    def control(self, *arguments: str) -> str:
        """Run one ``rabbitmqctl`` command; the result is its output."""
        command = [str(CONTROL), "-n", self._node, *arguments]
        done = subprocess.run(
            command,
            env=self._environment(),
            capture_output=True,
            text=True,
            check=True,
            timeout=CONTROL_WITHIN_S,
        )
        return done.stdout

    def _end(self) -> None:
        if self._epmd is not None:
            self._epmd.kill()
            self._epmd = None

    def _wait_for_epmd(self) -> None:
        assert self._epmd is not None
        end = time.monotonic() + EPMD_WITHIN_S
        while True:
            try:
                socket.create_connection(("127.0.0.1", self._epmd_port), 1).close()
                return
            except OSError:
                if time.monotonic() > end or self._epmd.returncode is not None:
                    raise self._epmd.fail(f"expected epmd on port {self._epmd_port}") from None
                time.sleep(0.01)

    def _wait_for_boot(self) -> None:
        """Wait for the whole boot: the listener opens shortly before the node reports that it has
        started."""
        server = self._running()
        log = self.directory / "rabbitmq.log"
        end = time.monotonic() + READY_WITHIN_S
        while "Server startup complete" not in (log.read_text() if log.exists() else ""):
            if time.monotonic() > end or server.returncode is not None:
                raise server.fail("expected 'Server startup complete' in the log")
            time.sleep(0.02)
        # A later start must wait for a line of its own.
        log.rename(log.with_suffix(".booted"))

    def _configuration(self) -> str:
        text = ""
        if self.management_address is not None and self.metrics_address is not None:
            text += f"""\
management.tcp.ip = 127.0.0.1
management.tcp.port = {self.management_address.port}
prometheus.tcp.ip = 127.0.0.1
prometheus.tcp.port = {self.metrics_address.port}
collect_statistics_interval = 500
"""
        if (certificates := self._certificates) is not None:
            text += f"""\
listeners.ssl.default = {self._amqps_address}
ssl_options.cacertfile = {certificates}/root.crt
ssl_options.certfile = {certificates}/server.crt
ssl_options.keyfile = {certificates}/server.key
ssl_options.verify = verify_none
"""
        return text + self._settings

    def _environment(self) -> dict[str, str]:
        home = self.directory
        loopback = "-kernel inet_dist_use_interface {127,0,0,1}"
        # Dead letters that no queue takes ("at-least-once") are sent again after a second, not
        # after three minutes.
        often = "-rabbit dead_letter_worker_publisher_confirm_timeout 1000"
        return environment_without("RABBITMQ", "ERL", "NOTIFY_SOCKET", "HOME") | {
            "HOME": str(home),
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "ERL_EPMD_PORT": str(self._epmd_port),
            # Makes the script exec the Erlang VM, so that its pid is the one that we stop.
            "RUNNING_UNDER_SYSTEMD": "true",
            "RABBITMQ_CONF_ENV_FILE": str(home / "empty.conf"),
            "RABBITMQ_CONFIG_FILE": str(home / "node.conf"),
            "RABBITMQ_ADVANCED_CONFIG_FILE": str(home / "none"),
            "RABBITMQ_NODENAME": self._node,
            "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODE_PORT": str(self._address.port),
            "RABBITMQ_DIST_PORT": str(free_port()),
            "RABBITMQ_MNESIA_BASE": str(home / "mnesia"),
            "RABBITMQ_LOG_BASE": str(home),
            "RABBITMQ_LOGS": str(home / "rabbitmq.log"),
            "RABBITMQ_PID_FILE": str(home / "pid"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(home / "plugins"),
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": f"{loopback} {often}",
        }
