"""An older Arneb beside this one: the code of a commit, and brokers that run it.

The rule: the commit's files are taken out of the history once, beside this checkout, which stays
as it is; what both are measured with is of this checkout.
"""

import subprocess
import tarfile
from io import BytesIO
from pathlib import Path

from conformance.brokers.arneb import REPOSITORY
from conformance.toolbox import extract


def export(revision: str, into: Path) -> Path:
    """Put the files of that commit into the directory ``into``, which is made."""
    command = ["git", "-C", str(REPOSITORY), "archive", "--format=tar", revision]
    archive = subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout
    with tarfile.open(fileobj=BytesIO(archive)) as packed:
        extract(packed, into)
    return into
