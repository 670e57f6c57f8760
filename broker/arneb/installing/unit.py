"""The systemd unit of an installation, for its own command, files and user.

The rule: it differs from the one that is shipped (``arneb.service`` beside this module) in nothing
but where things are, and in what a place in somebody's home needs.
"""

from importlib.resources import files
from pathlib import Path
from typing import Final

SHIPPED: Final = "arneb.service"
COMMAND: Final = "/opt/arneb/bin/arneb"
CONFIGURATION: Final = "/etc/arneb/arneb.toml"
STATE: Final = Path("/var/lib/arneb")
"""What ``StateDirectory=`` makes, with the right owner."""
HOMES: Final = (Path("/home"), Path("/root"), Path("/run/user"))
"""What ``ProtectHome=yes`` hides."""


def unit(command: Path, configuration: Path, data_dir: Path, user: str, group: str) -> str:
    """The text of a unit; all paths are absolute. Raises :class:`ValueError` for a path that a
    unit cannot say."""
    for path in (command, configuration, data_dir):
        if any(each in str(path) for each in " \t\n\"'\\%$"):
            raise ValueError(
                f"expected a path without blanks, quotes, backslashes, % and $ for the systemd "
                f"unit, got {path}"
            )
    shipped = files(__package__).joinpath(SHIPPED).read_text(encoding="utf-8")
    text = shipped.replace(COMMAND, str(command)).replace(CONFIGURATION, str(configuration))
    text = text.replace("User=arneb\n", f"User={user}\n").replace(
        "Group=arneb\n", f"Group={group}\n"
    )
    if data_dir != STATE:
        text = text.replace(
            "StateDirectory=arneb\nStateDirectoryMode=0750\n", f"ReadWritePaths={data_dir}\n"
        )
    if any(path.is_relative_to(home) for path in (command, configuration, data_dir)
           for home in HOMES):  # fmt: skip
        text = text.replace("ProtectHome=yes\n", "ProtectHome=no\n")
    return text
