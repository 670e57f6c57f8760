"""Tidiness: what a formatter and a type checker do not see.

Every exception from a rule stands below with its reason, and an exception that is no
longer needed fails too.
"""

import ast
import io
import re
import tokenize
from functools import cache
from pathlib import Path
from typing import Final
from urllib.parse import unquote

import pytest

REPOSITORY: Final = Path(__file__).resolve().parent.parent
PACKAGES: Final = (
    "core/arneb_core",
    "amqp_frontend/arneb_amqp",
    "pulsar_frontend/arneb_pulsar",
    "spark_connector/pyspark_arneb",
    "cluster/arneb_cluster",
    "broker/arneb",
)
LINES_MAX: Final = 400
TEST_LINES_MAX: Final = 600
"""A test module may hold one long story."""

LONG_MODULES: Final[dict[str, str]] = {}
"""Modules over the limit, each with the reason why it is one noun all the same."""

PURE: Final = (
    "cluster/arneb_cluster/protocol",
    "cluster/arneb_cluster/routing/frame_heads.py",
    "cluster/arneb_cluster/routing/internal_protocol.py",
    "cluster/arneb_cluster/routing/relay.py",
    "core/arneb_core/cursor/acks.py",
    "core/arneb_core/api/entries/codec.py",
    "core/arneb_core/dispatch",
    "core/arneb_core/api/entries/entry.py",
    "core/arneb_core/api/errors.py",
    "core/arneb_core/log/ledgers.py",
    "core/arneb_core/api/entries/position.py",
    "core/arneb_core/log/planning.py",
    "core/arneb_core/log/retention.py",
    "core/arneb_core/subscription",
    "core/arneb_core/api/topics/settings.py",
    "amqp_frontend/arneb_amqp/routing",
    "amqp_frontend/arneb_amqp/session",
    "amqp_frontend/arneb_amqp/wire",
    "pulsar_frontend/arneb_pulsar/client/trackers",
    "pulsar_frontend/arneb_pulsar/client/connection/machine.py",
    "pulsar_frontend/arneb_pulsar/client/consumer/acknowledging.py",
    "pulsar_frontend/arneb_pulsar/client/consumer/machine.py",
    "pulsar_frontend/arneb_pulsar/client/consumer/unpacking.py",
    "pulsar_frontend/arneb_pulsar/client/producer/machine.py",
    "pulsar_frontend/arneb_pulsar/client/producer/packing.py",
    "pulsar_frontend/arneb_pulsar/client/trackers",
    "pulsar_frontend/arneb_pulsar/packing",
    "pulsar_frontend/arneb_pulsar/session",
    "pulsar_frontend/arneb_pulsar/wire",
)
"""Code that is given time and chance as arguments and touches nothing outside itself."""

SCRIPTS: Final = ("pulsar_frontend/arneb_pulsar/wire/proto/generate.py",)
"""Run by developers only, beside pure code."""

IMPURE_CALLS: Final = re.compile(
    r"^(time\.|random\.|secrets\.|os\.|socket\.|threading\.|trio\.|asyncio\."
    r"|datetime\.(now|utcnow|today)|datetime\.datetime\.(now|utcnow)|uuid\.uuid[14]|open$|print$|input$)"
)

SLEEPING_TESTS: Final[dict[str, str]] = {
    "tests/attack/canary.py": "an honest client that asks little, beside hostile ones",
    "tests/attack/channels.py": "what a real broker gives back in a minute is what is measured",
    "tests/attack/crowd.py": "clients that say little once a second are what is tried",
    "tests/attack/running.py": "what a real broker has left of the last attack is let go",
    "tests/broker/http/page/test_pulsar_clients.py": "a real broker is asked until they came",
    "tests/browser/check_proxy.py": "a real proxy is asked until it serves",
    "tests/broker/test_shovels.py": "real brokers are asked until what was to move has moved",
    "tests/cluster/fencing/contender.py": "a node ticks beside real brokers, as it does in a shard",
    "tests/cluster/fencing/races.py": "a real broker is raced for after a random while",
    "tests/cluster/kills/canary.py": "publishes at a pace of its own through every disturbance",
    "tests/cluster/kills/disturbances.py": "real processes are asked until they have died",
    "tests/cluster/kills/mixed.py": "real processes work for a random while before one is killed",
    "tests/cluster/kills/take_over.py": "a cluster rests for a random while between two losses",
    "tests/cluster/kills/__main__.py": "real processes work for a random while, and are killed",
    "tests/cluster/kills/one_node.py": "publishes at a pace of its own until it is killed",
    "tests/cluster/member_kit.py": "nodes with threads of their own are asked until they are there",
    "tests/cluster/test_shard.py": "nodes with threads of their own are asked until they are there",
    "tests/crash/mixed.py": "real processes work for a random while before one is killed",
    "tests/crash/processor_wait.py": "real processes work for a random while before one is killed",
    "tests/crash/players/clients.py": "what a real broker does meanwhile is what is tested",
    "tests/crash/sigkill.py": "real processes work for a random while before one is killed",
    "tests/crash/staged.py": "real processes work for a random while before one is killed",
    "tests/crash/test_faulty_store.py": "a real broker is asked until its disk is seen to fail",
    "tests/pulsar_client/served.py": "a real broker is asked until it serves a topic again",
    "tests/pulsar_client/soak.py": "real processes are killed after a random while",
    "tests/spark_connector/pipeline/replay_crash.py": "real processes are killed after a while",
    "tests/spark_connector/stream/soak.py": "real processes work for a random while and are killed",
    "tests/spark_connector/stream/soak_query.py": "watches a query that runs by itself",
    "tests/spark_cluster/speculation.py": "a task dawdles, so that Spark runs it a second time",
    "tests/spark_cluster/__main__.py": "a real cluster is asked until its workers are there",
}
"""Test files that may sleep, each with the reason."""

SLEEPS: Final = re.compile(r"^((trio|time|asyncio)\.)?sleep$|^trio\.testing\.sleep")


def modules(*folders: str) -> list[Path]:
    """Every Python file below ``folders`` that a person wrote."""
    found = []
    for folder in folders:
        path = REPOSITORY / folder
        found += [path] if path.suffix == ".py" else sorted(path.rglob("*.py"))
    return [path for path in found if not path.stem.endswith("_pb2")]


def name_of(path: Path) -> str:
    return path.relative_to(REPOSITORY).as_posix()


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


def calls(path: Path) -> list[tuple[int, str]]:
    """The line and the dotted name of every call in the file, but for ``sleep(0)``, which
    waits for nothing."""
    return [
        (node.lineno, ast.unparse(node.func))
        for node in ast.walk(tree(path))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name | ast.Attribute)
        and not (node.args and ast.unparse(node.args[0]) == "0")
    ]


def test_modules_are_no_longer_than_one_noun_needs() -> None:
    long = {
        name_of(path)
        for folders, lines_max in (
            (PACKAGES, LINES_MAX),
            (("tests", "conformance", "bench"), TEST_LINES_MAX),
        )
        for path in modules(*folders)
        if len(path.read_text(encoding="utf-8").splitlines()) > lines_max
    }
    assert long == set(LONG_MODULES), f"over {LINES_MAX} lines, or listed without need"


def test_every_module_opens_with_a_docstring() -> None:
    bare = [
        name_of(path)
        for path in modules(*PACKAGES, "tests", "conformance", "bench")
        if ast.get_docstring(tree(path)) is None
    ]
    assert not bare


def test_whatever_keeps_a_state_shows_it() -> None:
    """Classes that inherit may inherit that as well, and private ones are their module's affair."""
    silent = [
        f"{name_of(path)}: {node.name}"
        for path in modules(*PACKAGES)
        for node in ast.walk(tree(path))
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
        if all(ast.unparse(base).startswith("Generic[") for base in node.bases)
        if "__init__" in (names := {getattr(each, "name", "") for each in node.body})
        and "__repr__" not in names
    ]
    assert not silent, "no __repr__"


def test_every_package_is_typed_and_has_an_init() -> None:
    for package in PACKAGES:
        assert (REPOSITORY / package / "py.typed").exists(), f"{package} has no py.typed"
        for path in (REPOSITORY / package).rglob("*.py"):
            assert (path.parent / "__init__.py").exists(), f"no __init__.py beside {name_of(path)}"


def test_the_cores_tests_stand_where_its_modules_do() -> None:
    """A test file bears its module's name, in a folder of the same name; what is played on a whole
    engine stands in ``engine``, in the folder that it is most about."""
    core, tests = REPOSITORY / "core/arneb_core", REPOSITORY / "tests/core"
    lost = []
    for path in sorted(tests.rglob("test_*.py")):
        folder = path.parent.relative_to(tests)
        modules_there = [each.stem for each in (core / folder).glob("*.py")]
        is_whole = folder.parts[0] == "engine" and bool(modules_there)
        name = path.stem.removeprefix("test_")
        if not is_whole and not any(
            name == each or name.startswith(f"{each}_") for each in modules_there
        ):
            lost.append(name_of(path))
    assert not lost


def test_folders_of_tests_are_folders_of_the_code() -> None:
    """Whoever looks for a module's tests finds them in a folder of the same name."""
    lost = []
    for tests, code in (
        ("tests/amqp_frontend", "amqp_frontend/arneb_amqp"),
        ("tests/broker", "broker/arneb"),
        ("tests/pulsar_frontend", "pulsar_frontend/arneb_pulsar"),
    ):
        folders = {path.parent for path in (REPOSITORY / tests).rglob("test_*.py")}
        there = {
            REPOSITORY / tests / path.relative_to(REPOSITORY / code)
            for path in (REPOSITORY / code).rglob("*")
            if path.is_dir()
        }
        lost += [name_of(each) for each in folders - there - {REPOSITORY / tests}]
    assert not lost


def test_pure_code_reads_no_clock_and_does_no_io() -> None:
    impure = [
        f"{name_of(path)}:{line}: {call}"
        for path in modules(*PURE)
        if name_of(path) not in SCRIPTS
        for line, call in calls(path)
        if IMPURE_CALLS.match(call)
    ]
    assert not impure


def test_no_test_sleeps() -> None:
    sleeping = {
        name_of(path)
        for path in modules("tests")
        if any(SLEEPS.match(call) for _, call in calls(path))
    }
    assert sleeping == set(SLEEPING_TESTS)


def test_every_listed_pure_module_is_there() -> None:
    missing = [each for each in PURE if not (REPOSITORY / each).exists()]
    assert not missing


LINK: Final = re.compile(r"(?<!!)\[[^\]]+\]\(([^)\s]+)\)")
HEADING: Final = re.compile(r"^#+ +(.*)$", re.MULTILINE)
FENCE: Final = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)


def pages() -> list[Path]:
    found = [REPOSITORY / "README.md", *sorted((REPOSITORY / "docs").rglob("*.md"))]
    for folder in ("conformance", "bench", *(each.split("/")[0] for each in PACKAGES)):
        found += sorted((REPOSITORY / folder).rglob("*.md"))
    return found


def anchors(page: Path) -> set[str]:
    """The anchors that a page's headings get."""
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    cleaned = (re.sub(r"[^\w\- ]", "", heading.lower()) for heading in HEADING.findall(text))
    return {heading.strip().replace(" ", "-") for heading in cleaned}


@pytest.mark.parametrize("page", pages(), ids=name_of)
def test_links_lead_somewhere(page: Path) -> None:
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    for link in LINK.findall(text):
        if "://" in link or link.startswith("mailto:"):
            continue
        target, _, anchor = unquote(link).partition("#")
        there = (page.parent / target).resolve() if target else page
        assert there.exists(), f"{name_of(page)} links to {link}, which is not there"
        if anchor:
            assert anchor in anchors(there), f"{name_of(page)}: {there.name} has no #{anchor}"


@pytest.mark.parametrize("page", pages(), ids=name_of)
def test_a_page_holds_one_side_of_a_merge(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert not re.search(r"^(<{7}|>{7})( |$)", text, re.MULTILINE), "a conflict was left standing"


HOP: Final = re.compile(r"^(\d+)\. `([\w/]+\.py)`", re.MULTILINE)


def test_the_walks_of_the_architecture_are_short_and_name_modules_that_are_there() -> None:
    text = (REPOSITORY / "docs/ARCHITECTURE.md").read_text(encoding="utf-8")
    walks = text.partition("## Three walks")[2].partition("\n## ")[0]
    hops = HOP.findall(walks)
    assert [number for number, _ in hops].count("1") == 3
    assert max(int(number) for number, _ in hops) <= 12
    for _, module in hops:
        assert any((REPOSITORY / each / module).exists() for each in PACKAGES), module


def test_every_page_of_docs_is_linked_from_another() -> None:
    """A page that nothing leads to is not read."""
    linked = set()
    for page in pages():
        for link in LINK.findall(page.read_text(encoding="utf-8")):
            if "://" not in link:
                linked.add((page.parent / unquote(link).partition("#")[0]).resolve())
    orphans = [name_of(page) for page in pages() if page not in linked and page.name != "README.md"]
    assert not orphans


GLOSSARY: Final = REPOSITORY / "docs" / "glossary.md"
BANNED: Final = re.compile(r"^\| ([\w ]+) \| [^|]+ \| (everywhere|names|modules) \|$", re.MULTILINE)
WORD: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")

OTHER_SENSE: Final[dict[str, str]] = {
    "conformance/brokers/pulsar_cluster.py": "the name of the metadata store",
    "conformance/suites/": "names of what others have written",
    "tests/test_pulsar_cluster.py": "the name of the metadata store",
}
"""Files and folders where such a word is the field's own, each with what it means there."""


@cache
def banned_words() -> dict[str, str]:
    return dict(BANNED.findall(GLOSSARY.read_text(encoding="utf-8")))


def words_in(text: str) -> set[str]:
    """Every word, in the singular and as it stands, names taken apart into words."""
    words = {each.lower() for each in WORD.findall(text)}
    return words | {each.removesuffix("s") for each in words}


def banned_in(path: Path) -> set[str]:
    """The words of the glossary's last table that ``path`` has, where they count."""
    name, text = name_of(path), path.read_text(encoding="utf-8")
    found = {"modules": words_in(path.stem), "names": set[str]()}
    if path.suffix == ".py":
        found["modules"] |= {
            word
            for node in ast.walk(tree(path))
            if isinstance(node, ast.ClassDef)
            for word in words_in(node.name)
        }
        tokens = tokenize.generate_tokens(io.StringIO(text).readline)
        found["names"] = words_in(" ".join(each.string for each in tokens if each.type == 1))
    found["names"] |= found["modules"]
    found["everywhere"] = found["names"] | words_in(text)
    plain = " ".join(text.lower().split())
    return {
        f"{name}: {word}"
        for word, where in banned_words().items()
        if (word in plain if " " in word else {word, word.removesuffix("s")} & found[where])
    }


def test_words_that_the_glossary_does_not_want_are_not_used() -> None:
    assert len(banned_words()) > 20
    found = [
        each
        for path in [*modules(*PACKAGES, "tests", "conformance", "bench", "docs"), *pages()]
        if path != GLOSSARY and not name_of(path).startswith(tuple(OTHER_SENSE))
        for each in sorted(banned_in(path))
    ]
    assert not found
