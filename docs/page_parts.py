"""The parts of the management page that others wrote: taken from npm, kept in the repository.

The rule: what lies in the folder is, byte for byte, what the package of that version holds, and the
package what its index says. ``python docs/page_parts.py`` fetches all of them anew by ``npm pack``;
``--check`` needs no network, and fails if a file is not the one that was fetched, or if a browser
would have to load more than is good for it.
"""

import base64
import gzip
import hashlib
import json
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Any, Final

PAGE: Final = Path(__file__).resolve().parents[1] / "broker/arneb/http/page/static"
FOLDER: Final = PAGE / "vendor"
LIST: Final = FOLDER / "parts.json"

PACKED_BYTES_MAX: Final = 300 * 1024
"""All files of the page, compressed: what a browser loads once."""


def parts() -> list[dict[str, Any]]:
    """What there is: packages with their versions, and which of their files."""
    found: list[dict[str, Any]] = json.loads(LIST.read_text(encoding="utf-8"))
    return found


def differences() -> list[str]:
    """What is not as it was fetched; nothing if all is well."""
    known = {LIST.name}
    wrong: list[str] = []
    for part in parts():
        for name, file in part["files"].items():
            known.add(name)
            path = FOLDER / name
            if not path.is_file():
                wrong.append(f"{name} of {part['package']} {part['version']} is missing")
            elif hashlib.sha256(path.read_bytes()).hexdigest() != file["sha256"]:
                wrong.append(f"{name} is not the one of {part['package']} {part['version']}")
    wrong += [f"nobody knows where {each.name} is from" for each in FOLDER.iterdir()
              if each.name not in known]  # fmt: skip
    size = packed_bytes()
    if size > PACKED_BYTES_MAX:
        wrong.append(f"the page is {size} bytes compressed, more than {PACKED_BYTES_MAX}")
    return wrong


def packed_bytes() -> int:
    """What a browser loads."""
    files = [each for each in PAGE.rglob("*") if each.is_file()]
    return sum(len(gzip.compress(each.read_bytes(), 9)) for each in files)


def fetch() -> None:
    """Take every file anew. Raises :class:`ValueError` for a package that is another one."""
    for part in parts():
        with tempfile.TemporaryDirectory() as place:
            wanted = f"{part['package']}@{part['version']}"
            subprocess.run(["npm", "pack", "--silent", wanted], cwd=place, check=True)
            (package,) = Path(place).glob("*.tgz")
            digest = base64.b64encode(hashlib.sha512(package.read_bytes()).digest()).decode()
            if f"sha512-{digest}" != part["integrity"]:
                raise ValueError(f"{wanted}: expected {part['integrity']}, got sha512-{digest}")
            with tarfile.open(package) as archive:
                for name, file in part["files"].items():
                    inside = archive.extractfile(f"package/{file['from']}")
                    assert inside is not None, f"{wanted} has no {file['from']}"
                    (FOLDER / name).write_bytes(inside.read())


def main() -> None:
    """Fetch, or compare."""
    if sys.argv[1:] != ["--check"]:
        fetch()
    if wrong := differences():
        sys.exit("\n".join(wrong))


if __name__ == "__main__":
    main()
