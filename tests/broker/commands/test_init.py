"""A new installation: ``arneb init`` writes exactly what the broker reads."""

import os
import re
import shutil
import stat
import subprocess
import sys
from base64 import b64encode
from pathlib import Path
from urllib.request import Request, urlopen

import pytest

from arneb.demo.process import BrokerProcess
from arneb.installing.unit import unit
from arneb.settings.config import Config, load_config

SHIPPED = Path(__file__).resolve().parents[3] / "deploy" / "arneb.service"
SAID = re.compile(
    r"^user (?P<user>\S+), password (?P<password>\S+): an administrator; shown only once$"
)


def init(*arguments: str | Path, given: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "arneb", "init", *map(str, arguments)],
        input=given,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def login_shown(done: subprocess.CompletedProcess[str]) -> tuple[str, str]:
    """The administrator and the password."""
    assert done.returncode == 0, done.stderr
    [found] = [match for line in done.stdout.splitlines() if (match := SAID.match(line))]
    return found["user"], found["password"]


def test_the_file_sets_nothing_but_the_directory_and_an_administrator(tmp_path: Path) -> None:
    assert login_shown(init(tmp_path))[0] == "admin"
    config = load_config(tmp_path / "arneb.toml")
    [user] = config.amqp.users
    assert (user.name, user.password, user.tags) == ("admin", "", ("administrator",))
    assert config.data_dir == tmp_path / "data"
    plain = Config()
    assert config.amqp.adjusted(loopback_users=()).loopback_users == ()
    for name in ("pulsar", "http", "http_pulsar", "metrics", "retention", "alarms", "log", "stop"):
        assert getattr(config, name) == getattr(plain, name)
    text = (tmp_path / "arneb.toml").read_text()
    assert stat.S_IMODE((tmp_path / "arneb.toml").stat().st_mode) & 0o007 == 0
    assert 'password = ""' in text
    assert "guest" not in re.sub(r"^#.*$", "", text, flags=re.MULTILINE)


def test_each_key_is_listed_with_its_default(tmp_path: Path) -> None:
    init(tmp_path)
    before = load_config(tmp_path / "arneb.toml")
    lines, passed_over, count = list[str](), False, 0
    for line in (tmp_path / "arneb.toml").read_text().splitlines():
        if line.startswith(("[", "#[")):
            passed_over = line.startswith("#[")  # a table inside a list, which is empty by default
        is_default = re.match(r"^#\w+ = [^<]", line) and not line.startswith("#password")
        if is_default and not passed_over:
            lines.append(line.removeprefix("#"))
            count += 1
        elif not line.startswith("#"):
            lines.append(line)
    (tmp_path / "all.toml").write_text("\n".join(lines))
    assert load_config(tmp_path / "all.toml") == before
    assert count > 100


def test_the_administrator_can_log_in_and_guest_cannot(tmp_path: Path) -> None:
    user, password = login_shown(init(tmp_path, "--user", "ops"))
    assert user == "ops"
    assert password not in (tmp_path / "arneb.toml").read_text()
    options = ("--config", str(tmp_path / "arneb.toml"))
    with BrokerProcess(tmp_path / "data", options=options) as broker:

        def asked(name: str, secret: str) -> int:
            login = b64encode(f"{name}:{secret}".encode()).decode()
            url = f"http://{broker.addresses['http']}/api/whoami"
            request = Request(url, headers={"authorization": f"Basic {login}"})
            try:
                with urlopen(request, timeout=30) as answer:
                    status: int = answer.status
            except OSError as error:
                status = getattr(error, "code", 0)
            return status

        assert asked("ops", password) == 200
        assert asked("guest", "guest") == 401


def test_a_password_can_be_given(tmp_path: Path) -> None:
    done = init(tmp_path, "--password-stdin", given="correct horse\n")
    assert done.returncode == 0
    assert "correct horse" not in done.stdout + (tmp_path / "arneb.toml").read_text()
    assert "user admin: an administrator" in done.stdout
    assert init(tmp_path / "other", "--password-stdin").stderr == (
        "arneb: --password-stdin: expected a password on standard input, got nothing\n"
    )


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    (tmp_path / "arneb.toml").write_text("# mine\n")
    done = init(tmp_path)
    assert done.returncode == 2
    assert done.stderr == f"arneb: expected no arneb.toml in {tmp_path}, and there is one\n"
    assert [each.name for each in tmp_path.iterdir()] == ["arneb.toml"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root is refused no directory")
def test_a_directory_that_cannot_be_created_is_named(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    done = init(tmp_path / "there")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert str(tmp_path / "there") in done.stderr


def test_the_unit_is_the_shipped_one_with_other_paths(tmp_path: Path) -> None:
    shipped = SHIPPED.read_text()
    etc, state = Path("/etc/arneb/arneb.toml"), Path("/var/lib/arneb")
    assert unit(Path("/opt/arneb/bin/arneb"), etc, state, "arneb", "arneb") == shipped
    own = unit(Path("/srv/bin/arneb"), Path("/srv/arneb.toml"), Path("/srv/data"), "me", "us")
    assert "ExecStart=/srv/bin/arneb serve --config /srv/arneb.toml\n" in own
    assert "User=me\nGroup=us\nReadWritePaths=/srv/data\n" in own
    assert "ProtectHome=yes\n" in own
    home = unit(Path("/home/me/bin/arneb"), etc, state, "me", "me")
    assert "ProtectHome=no\n" in home
    with pytest.raises(ValueError, match="without blanks"):
        unit(Path("/srv/my files/arneb"), etc, state, "me", "me")
    if systemd := shutil.which("systemd-analyze"):
        file = tmp_path / "arneb.service"
        file.write_text(own.replace("/srv/bin/arneb", sys.executable))
        done = subprocess.run(
            [systemd, "verify", "--man=no", str(file)], capture_output=True, text=True, check=False
        )
        assert "arneb.service" not in done.stderr, done.stderr
