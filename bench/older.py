"""An older Arneb beside this one: the code of a commit, for brokers that run it.

The rule: the commit's files are extracted from the history once, outside this checkout, which stays
as it is. The measuring code is this checkout's in both cases.
"""

import subprocess
import tarfile
from io import BytesIO
from pathlib import Path

from conformance.brokers.arneb import REPOSITORY
from conformance.toolbox import extract


def export(revision: str, into: Path) -> Path:
    """Extract the files of that commit into the new directory ``into``."""
    command = ["git", "-C", str(REPOSITORY), "archive", "--format=tar", revision]
    archive = subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout
    with tarfile.open(fileobj=BytesIO(archive)) as packed:
        extract(packed, into)
    return into
