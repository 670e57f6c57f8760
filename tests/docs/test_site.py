"""The site, as far as it can be tried without building it, and the compose file."""

from pathlib import Path

import yaml
from docs.site import PICTURES, copied

REPOSITORY = Path(__file__).resolve().parents[2]


def test_every_link_leads_somewhere_and_none_out_of_the_site(tmp_path: Path) -> None:
    assert copied(tmp_path) == []
    pages = {each.relative_to(tmp_path).as_posix() for each in tmp_path.rglob("*.md")}
    assert {"index.md", "guide/index.md", "guide/page.md", "internals/page.md"} <= pages
    assert "../../" not in (tmp_path / "guide/page.md").read_text(encoding="utf-8")
    assert PICTURES.is_relative_to(REPOSITORY / "build")


def test_the_chapter_of_the_page_shows_it(tmp_path: Path) -> None:
    picture = tmp_path / "page/light-1440/overview.png"
    picture.parent.mkdir(parents=True)
    picture.write_bytes(b"a picture")
    (picture.parent / "users.png").write_bytes(b"another")
    site = tmp_path / "site"
    assert copied(site, tmp_path / "page") == []
    text = (site / "guide/page.md").read_text(encoding="utf-8")
    assert "![overview, light](../page/light-1440/overview.png){ loading=lazy }" in text
    assert text.index("users.png") > text.index("overview.png")
    assert text.count("![") == 2
    assert (site / "page/light-1440/overview.png").read_bytes() == b"a picture"


def test_the_compose_file_publishes_on_this_machine_only_and_needs_a_password() -> None:
    compose = yaml.safe_load((REPOSITORY / "deploy/compose.yaml").read_text(encoding="utf-8"))
    service = compose["services"]["arneb"]
    assert all(each.startswith("127.0.0.1:") for each in service["ports"])
    assert {each.rpartition(":")[2] for each in service["ports"]} == {
        "5672", "6650", "8080", "15672",
    }  # fmt: skip
    assert service["environment"]["RABBITMQ_DEFAULT_PASS"].startswith("${ARNEB_PASSWORD:?")
    assert (REPOSITORY / service["build"]["dockerfile"]).is_file()
    assert service["volumes"] == ["data:/var/lib/arneb"]
