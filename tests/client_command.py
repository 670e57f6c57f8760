"""``arneb client`` as a process, for tests of any package."""

import subprocess
from typing import Final

from conformance.brokers.arneb import arneb_command, arneb_environment

WITHIN_S: Final = 60


def played(
    url: str, *arguments: str, stdin: bytes = b"", status: int = 0
) -> subprocess.CompletedProcess[bytes]:
    """The command with these arguments at a broker, ended as expected."""
    done = subprocess.run(
        [*arneb_command(), "client", "-b", url, *arguments],
        env=arneb_environment(),
        input=stdin,
        capture_output=True,
        timeout=WITHIN_S,
        check=False,
    )
    assert done.returncode == status, done.stderr.decode()
    return done
