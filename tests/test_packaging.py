"""What people install: the wheel and the source distribution, and a broker that runs from them."""

import os
import re
import subprocess
import sys
import tarfile
import tomllib
import venv
import zipfile
from pathlib import Path
from typing import Final

import pytest
import yaml

from arneb import __version__

REPOSITORY: Final = Path(__file__).resolve().parents[1]
PACKAGES: Final = {
    "arneb",
    "arneb_amqp",
    "arneb_cluster",
    "arneb_core",
    "arneb_pulsar",
    "pyspark_arneb",
}
DATA: Final = {
    "arneb/http/management/rabbitmqadmin.txt",
    "arneb/installing/arneb.service",
    "arneb_pulsar/wire/proto/pulsar.proto",
    "pyspark_arneb/pipeline/spark_conf/log4j2.properties",
}


RELEASE: Final = re.compile(r"(\d+\.\d+\.\d+) \(\d{4}-\d\d-\d\d\)")
PAGE: Final = "arneb/http/page/static/"
PAGE_FILES: Final = {
    f"{PAGE}{each}"
    for each in ("index.html", "css/page.css", "js/main.js", "vendor/uplot.js", "vendor/parts.json")
}


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The wheel and the source distribution."""
    made = tmp_path_factory.mktemp("dist")
    done = subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-d", str(made)],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    ((wheel,), (source,)) = made.glob("*.whl"), made.glob("*.tar.gz")
    return wheel, source


def test_both_say_what_an_index_asks_for(built: tuple[Path, Path]) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "twine", "check", "--strict", *map(str, built)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_wheel_holds_the_packages_and_nothing_besides(built: tuple[Path, Path]) -> None:
    with zipfile.ZipFile(built[0]) as wheel:
        names = {each.filename for each in wheel.infolist() if not each.is_dir()}
        assert not any(each.create_system == 0 for each in wheel.infolist())
    own = {each for each in names if each.split("/")[0] in PACKAGES}
    others = {each.split("/", 1)[1] for each in names - own}
    assert "data/share/man/man1/arneb.1" in others
    assert {each for each in others if not each.startswith("data/share/")} == {
        "METADATA", "WHEEL", "RECORD", "entry_points.txt", "licenses/LICENSE",
    }  # fmt: skip
    assert {each.split("/")[0] for each in own} == PACKAGES
    assert DATA | {f"{each}/py.typed" for each in PACKAGES} <= own
    allowed = (".py", ".pyi", "py.typed", *DATA)
    others = {each for each in own if not each.endswith(allowed)}
    assert others >= PAGE_FILES
    with zipfile.ZipFile(built[0]) as wheel:
        [metadata] = (each for each in names if each.endswith(".dist-info/METADATA"))
        text = wheel.read(metadata).decode()
    extras = set(re.findall(r"^Provides-Extra: (\S+)$", text, re.MULTILINE))
    assert {"spark", "lake", "cluster", "dev"} <= extras
    assert all(each.startswith(PAGE) for each in others)
    # What is there is what is tracked: no caches, no leftovers.
    listed = subprocess.run(
        ["git", "ls-files", "*.py", "broker/arneb/http/page/static"],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
    )
    if listed.returncode == 0:
        tracked = {each.split("/", 1)[1] for each in listed.stdout.split() if "/" in each}
        assert {each for each in own if each.endswith(".py") or each.startswith(PAGE)} <= tracked


def test_the_source_can_be_checked_tested_and_built_again(built: tuple[Path, Path]) -> None:
    with tarfile.open(built[1]) as source:
        names = {each.split("/", 1)[1] for each in source.getnames() if "/" in each}
    wanted = {"Makefile", "README.md", "LICENSE", "CHANGELOG.md", "pyproject.toml", ".ci/run"}
    assert wanted <= names
    for folder in ("tests", "conformance", "bench", "docs/guide", "deploy", "pulsar_client"):
        assert any(each.startswith(f"{folder}/") for each in names), folder


def test_a_broker_is_made_and_run_where_only_the_wheel_is(
    built: tuple[Path, Path], tmp_path: Path
) -> None:
    venv.create(tmp_path / "venv", with_pip=False)
    (packages,) = (tmp_path / "venv/lib").glob("python*/site-packages")
    with zipfile.ZipFile(built[0]) as wheel:
        wheel.extractall(packages)
    # What others made is taken from here; our own source roots, which a .pth names, are not.
    theirs = next(each for each in map(Path, sys.path) if each.name == "site-packages")
    (packages / "theirs.pth").write_text(f"{theirs}\n")

    def arneb(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(tmp_path / "venv/bin/python"), "-I", "-m", "arneb", *arguments],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            cwd=tmp_path,
            env=dict(os.environ),
        )

    assert arneb("--version").stdout == f"arneb, version {__version__}\n"
    assert arneb("init", "here").returncode == 0
    (tmp_path / "here/data").rmdir()  # not a store yet
    listed = arneb("topics", "here/data")
    assert (listed.returncode, listed.stderr.count("\n")) == (2, 1)
    where = arneb("client", "--help")
    assert where.returncode == 0
    assert str(REPOSITORY) not in where.stdout


def test_a_tag_is_the_number_of_what_is_built() -> None:
    """Releases have the numbers that the changelog tells of, the newest first."""
    text = (REPOSITORY / "CHANGELOG.md").read_text(encoding="utf-8")
    headings = re.findall(r"^## (.+)$", text, re.MULTILINE)
    numbered = [each for each in headings if each != "Unreleased"]
    releases = [RELEASE.fullmatch(each) for each in numbered]
    assert all(releases), f"expected NUMBER (DAY), got {numbered}"
    numbers = [tuple(map(int, each[1].split("."))) for each in releases if each is not None]
    assert numbers == sorted(numbers, reverse=True)
    built = re.fullmatch(r"(\d+)\.(\d+)\.(\d+)", __version__)
    assert built is not None, __version__
    here = tuple(map(int, built.groups()))
    assert not numbers or numbers[0] <= here
    asked = ["git", "tag", "--points-at", "HEAD"]
    done = subprocess.run(asked, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    tags = [each for each in done.stdout.split() if re.match(r"v\d", each)]
    assert tags in ([], [f"v{__version__}"])
    assert not tags or numbers[:1] == [here]


def test_commands_that_are_promised_have_a_module() -> None:
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    assert project["scripts"] == {"arneb": "arneb.cli:main"}
    assert set(project["optional-dependencies"]) >= {"dev", "lake", "spark"}


@pytest.mark.parametrize("file", sorted((REPOSITORY / ".github/ISSUE_TEMPLATE").glob("*.yml")))
def test_templates_of_issues_can_be_read(file: Path) -> None:
    assert isinstance(yaml.safe_load(file.read_text()), dict)
