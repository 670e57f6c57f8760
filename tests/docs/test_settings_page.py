"""The settings page says what the configuration's classes say, and the broker loads it."""

import re
from pathlib import Path

from docs import settings_page

from arneb.settings.config import Config, load_config
from arneb.settings.described import described_tables

ROW = re.compile(r"^\| `(?P<key>\w+)` \| (?P<value>.*?) \| (?P<default>.*?) \| (?P<text>.+) \|$")
TABLE = re.compile(r"^## `(?P<brackets>\[+[\w.]+\]+)`$")


def test_the_page_is_what_the_classes_say() -> None:
    written = settings_page.PAGE.read_text(encoding="utf-8")
    assert written == settings_page.page(), "run python docs/settings_page.py"


def test_every_key_is_described() -> None:
    keys = [(table.name, key) for table in described_tables() for key in table.keys]
    assert len(keys) > 60
    for name, key in keys:
        assert key.text.endswith("."), f"[{name}] {key.name}: {key.text}"
        assert key.type, f"[{name}] {key.name}"


def test_a_file_with_all_that_the_page_says_is_the_default_one(tmp_path: Path) -> None:
    """Every key exists, under that table, and has that default."""
    lines, count = list[str](), 0
    for line in settings_page.PAGE.read_text(encoding="utf-8").splitlines():
        if (table := TABLE.match(line)) and table["brackets"] != "[[amqp.users]]":
            # Lists of tables are empty unless somebody fills them.
            is_list = table["brackets"].startswith("[[")
            lines.append("[passed_over]" if is_list else table["brackets"])
        elif table:
            lines += ["[[amqp.users]]", 'name = "guest"', 'password = "guest"']
            lines += ["loopback_only = true", "[passed_over]"]
        elif (row := ROW.match(line)) and row["default"] not in ("none", "required"):
            lines.append(f"{row['key']} = {row['default'].strip('`')}")
            count += 1
    text = re.sub(r"^\[passed_over\]\n(?:(?!\[).*\n?)*", "", "\n".join(lines), flags=re.MULTILINE)
    file = tmp_path / "arneb.toml"
    file.write_text(text)
    found = load_config(file, data_dir=Config().data_dir)
    assert found == Config()
    assert count > 60


def test_the_example_is_a_configuration(tmp_path: Path) -> None:
    [example] = re.findall(r"```toml\n(.*?)```", settings_page.HEAD, re.DOTALL)
    file = tmp_path / "arneb.toml"
    file.write_text(example)
    config = load_config(file)
    assert [each.name for each in config.amqp.users] == ["shop"]
    assert config.retention.time_s == 86_400
