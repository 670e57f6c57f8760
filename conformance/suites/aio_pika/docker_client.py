"""Stands where the suite starts a broker in a container: there is one already, elsewhere."""

import os
from dataclasses import dataclass

NOBODY_LISTENS = 1
"""A port for TLS; the tests that would use it are left out."""


class DockerNotAvailableError(Exception):
    """Never raised."""


@dataclass
class DockerHostInfo:
    """Where containers would be."""


@dataclass
class ContainerInfo:
    """Where the broker is."""

    id: str
    ports: dict[str, int]
    host: str


class DockerClient:
    """Starts and stops nothing."""

    def __init__(self, info: DockerHostInfo | None = None) -> None:
        pass

    def run(
        self, image: str, ports: list[str], environment: dict[str, str] | None = None
    ) -> ContainerInfo:
        amqp = int(os.environ["RABBITMQ_5672_TCP"])
        host = os.environ["RABBITMQ_HOST"]
        return ContainerInfo(image, {"5672/tcp": amqp, "5671/tcp": NOBODY_LISTENS}, host)

    def kill(self, container_id: str) -> None:
        pass

    def remove(self, container_id: str) -> None:
        pass


def check_docker_available() -> DockerHostInfo:
    return DockerHostInfo()
