"""What an operator does at the page, in a real browser."""

import json
import re
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import quote
from zoneinfo import ZoneInfo

import httpx
import pika
import pytest
from playwright.sync_api import Browser, Route, expect
from tests.browser.operator import PHONE, Operator, chromium, operator, url_of

from arneb.demo.process import BrokerProcess

HOSTILE = "<img src=x onerror=window.hacked=1>"
RATE_WITHIN_MS = 2000
FIGURES_MS = 2500
"""In which the stream has brought some, and what stands on the page was recreated."""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as found:
        yield found


@pytest.fixture(scope="module")
def audit(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file of the audit log."""
    return tmp_path_factory.mktemp("audit") / "audit.log"


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory, audit: Path) -> Iterator[BrokerProcess]:
    settings = audit.with_name("arneb.toml")
    settings.write_text(f'[audit]\nfile = "{audit}"\n')
    store = tmp_path_factory.mktemp("store")
    with BrokerProcess(store, ["amqp", "http"], [f"--config={settings}"]) as found:
        yield found


@pytest.fixture
def somebody(browser: Browser, broker: BrokerProcess) -> Iterator[Operator]:
    with operator(browser, url_of(broker)) as found:
        found.log_in()
        yield found


def connected(broker: BrokerProcess) -> Any:
    """A client over AMQP."""
    where = pika.ConnectionParameters("127.0.0.1", broker.amqp_port)
    return pika.BlockingConnection(where)


def api(broker: BrokerProcess, method: str, path: str, body: Any = None) -> Any:
    answer = httpx.request(
        method, f"{url_of(broker)}api/{path}", auth=("guest", "guest"),
        content=None if body is None else json.dumps(body),
    )  # fmt: skip
    answer.raise_for_status()
    return answer.json() if answer.content else None


def test_a_wrong_password_lets_nobody_in(browser: Browser, broker: BrokerProcess) -> None:
    with operator(browser, url_of(broker)) as somebody:
        somebody.page.goto(somebody.url)
        somebody.page.get_by_label("User").fill("guest")
        somebody.page.get_by_label("Password").fill("wrong")
        somebody.press("Log in")
        expect(somebody.page.get_by_role("alert")).to_contain_text("do not belong together")


def test_a_queue_is_made_and_a_message_published_seen_and_found(somebody: Operator) -> None:
    page = somebody.page
    somebody.go("#/queues")
    somebody.press("New queue")
    page.get_by_label("Name", exact=True).fill("seen")
    somebody.press("Make it")
    page.get_by_role("link", name="seen", exact=True).click()
    page.get_by_role("link", name="Publish").click()
    page.get_by_label("Body").fill('{"order": 7}')
    page.get_by_label("Headers, as JSON").fill('{"region": "eu"}')
    somebody.press("Publish")
    somebody.sees("Published.")
    page.get_by_role("navigation", name="Parts of this queue").get_by_role(
        "link", name="Messages"
    ).click()
    message = page.get_by_role("article")
    expect(message).to_have_count(1)
    expect(message).to_contain_text('"order": 7')
    page.get_by_label("Header", exact=True).fill("region=us")
    somebody.press("Search")
    expect(page.get_by_role("article")).to_have_count(0)
    page.get_by_label("Header", exact=True).fill("region=eu")
    page.get_by_label("Text in the body").fill("order")
    somebody.press("Search")
    expect(page.get_by_role("article")).to_have_count(1)


def test_a_look_takes_nothing(somebody: Operator, broker: BrokerProcess) -> None:
    api(broker, "PUT", "queues/%2F/looked", {"durable": True})
    with connected(broker) as connection:
        connection.channel().basic_publish("", "looked", b"x")
    somebody.go("#/queues/%2F/looked/messages")
    expect(somebody.page.get_by_role("article")).to_have_count(1)
    with connected(broker) as connection:
        method, _, body = connection.channel().basic_get("looked", auto_ack=True)
        assert (body, method.redelivered) == (b"x", False)


def test_a_dead_letter_is_sent_back(somebody: Operator, broker: BrokerProcess) -> None:
    dead = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
    api(broker, "PUT", "queues/%2F/dead", {"durable": True})
    api(broker, "PUT", "queues/%2F/alive", {"durable": True, "arguments": dead})
    with connected(broker) as connection:
        channel = connection.channel()
        channel.basic_publish("", "alive", b"once more")
        method, _, _ = channel.basic_get("alive")
        while method is None:
            method, _, _ = channel.basic_get("alive")
        channel.basic_reject(method.delivery_tag, requeue=False)
    somebody.go("#/queues/%2F/dead/messages")
    page = somebody.page
    somebody.press("Search")
    expect(page.get_by_role("article")).to_contain_text("died: rejected in alive")
    page.get_by_role("article").get_by_role("checkbox").check()
    somebody.press("Send back where it died")
    somebody.sees("1 sent back.")
    assert api(broker, "GET", "queues/%2F/alive")["messages"] == 1


def test_a_rate_moves_within_two_seconds(somebody: Operator, broker: BrokerProcess) -> None:
    api(broker, "PUT", "queues/%2F/moving", {"durable": True})
    somebody.go("#/queues/%2F/moving")
    figure = somebody.page.locator(".figure", has_text="Ready").locator("dd").first
    expect(figure).to_have_text("0")
    with connected(broker) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        for _ in range(20):
            channel.basic_publish("", "moving", b"x")
        began = time.monotonic()
        expect(figure).to_have_text("20", timeout=RATE_WITHIN_MS)
        rate = somebody.page.locator(".figure", has_text="Coming in").locator("dd").first
        expect(rate).not_to_have_text("0/s", timeout=RATE_WITHIN_MS)
        assert time.monotonic() - began < 2 * RATE_WITHIN_MS / 1000


def test_a_connection_is_closed(somebody: Operator, broker: BrokerProcess) -> None:
    connection = connected(broker)
    somebody.go("#/connections")
    somebody.page.get_by_role("table").get_by_role("link").first.click()
    somebody.press("Close")
    somebody.press("Close the connection")
    somebody.sees("Closed.")
    with pytest.raises(pika.exceptions.ConnectionClosedByBroker):
        for _ in range(100):
            connection.process_data_events(0.1)


def test_a_policy_is_set_after_a_look_at_what_it_touches(
    somebody: Operator, broker: BrokerProcess
) -> None:
    api(broker, "PUT", "queues/%2F/ruled", {"durable": True})
    page = somebody.page
    somebody.go("#/policies")
    somebody.press("New policy")
    page.get_by_label("Name", exact=True).fill("short")
    page.get_by_label("Pattern").fill("^ruled$")
    somebody.sees("Would touch 1 name")
    page.get_by_label("Definition, as JSON").fill('{"max-length": 7}')
    somebody.press("Save")
    somebody.sees("Saved short.")
    assert api(broker, "GET", "queues/%2F/ruled")["policy"] == "short"


def test_a_user_with_fewer_rights_is_refused_with_the_reason(
    browser: Browser, broker: BrokerProcess
) -> None:
    api(broker, "PUT", "users/looker", {"password": "secret", "tags": "management"})
    with operator(browser, url_of(broker)) as somebody:
        somebody.log_in("looker", "secret")
        somebody.go("#/users")
        somebody.sees("Not administrator user")
        somebody.go("#/queues")
        somebody.sees("There is no queue and no topic yet.")


def test_the_stream_ends_when_a_right_is_taken_away(
    browser: Browser, broker: BrokerProcess
) -> None:
    api(broker, "PUT", "users/leaver", {"password": "secret", "tags": "management"})
    rights = {"configure": ".*", "write": ".*", "read": ".*"}
    api(broker, "PUT", "permissions/%2F/leaver", rights)
    api(broker, "PUT", "queues/%2F/watched", {"durable": True})
    with operator(browser, url_of(broker)) as somebody:
        somebody.log_in("leaver", "secret")
        somebody.go("#/queues")
        expect(somebody.page.get_by_role("link", name="watched", exact=True)).to_be_visible()
        api(broker, "DELETE", "permissions/%2F/leaver")
        expect(somebody.page.get_by_role("link", name="watched", exact=True)).to_be_hidden()
        api(broker, "DELETE", "users/leaver")
        expect(somebody.page.get_by_role("button", name="Log in")).to_be_visible()


def test_a_hostile_name_is_text(somebody: Operator, broker: BrokerProcess) -> None:
    with connected(broker) as connection:
        connection.channel().queue_declare(HOSTILE, durable=True)
    somebody.go("#/queues")
    somebody.page.get_by_role("link", name=HOSTILE).click()
    expect(somebody.page.get_by_role("heading", name=HOSTILE)).to_be_visible()
    assert somebody.page.evaluate("window.hacked") is None
    assert somebody.page.locator("img[src=x]").count() == 0


def test_a_purge_asks_for_the_name(somebody: Operator, broker: BrokerProcess, audit: Path) -> None:
    api(broker, "PUT", "queues/%2F/full", {"durable": True})
    with connected(broker) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        channel.basic_publish("", "full", b"x")
    somebody.go("#/queues/%2F/full")
    somebody.press("Purge")
    dialog = somebody.page.get_by_role("dialog")
    expect(dialog).to_contain_text("1 message that waits is deleted")
    expect(dialog).to_contain_text("It stands in the audit log.")
    expect(dialog.get_by_role("button", name="Purge")).to_be_disabled()
    dialog.get_by_role("textbox").fill("full")
    dialog.get_by_role("button", name="Purge").click()
    somebody.sees("Purged full.")
    assert api(broker, "GET", "queues/%2F/full")["messages"] == 0
    records = map(json.loads, audit.read_text(encoding="utf-8").splitlines())
    [purge] = [each for each in records if "/full/contents" in each["action"]]
    assert (purge["user"], purge["outcome"]) == ("guest", "done")


@pytest.mark.parametrize(
    ("hash_", "heading"),
    [
        ("#/queues/%2F/linked", "linked"),
        ("#/queues/%2F/linked?page=2", "linked"),
        ("#/exchanges/%2F/amq.topic", "amq.topic"),
        ("#/exchanges/%2F/amq.default", "Default exchange"),
        ("#/nodes/rabbit@here", "Overview"),
        ("#/feature-flags", "Overview"),
        ("#/vhosts/%2F", "Virtual hosts"),
        ("#/users/guest", "Users"),
        ("#/limits", "Virtual hosts"),
        ("#/operator-policies", "Operator policies"),
        ("#/cluster-name", "Definitions"),
        ("#/streams", "Queues and topics"),
        ("#/stream/connections", "Connections"),
        ("#/channels", "Channels"),
        ("#/nothing/of/the/kind", "No such page"),
    ],
)
def test_rabbitmqs_addresses_lead_to_the_same_things(
    somebody: Operator, broker: BrokerProcess, hash_: str, heading: str
) -> None:
    api(broker, "PUT", "queues/%2F/linked", {"durable": True})
    somebody.go(hash_)
    expect(somebody.page.locator("main h1")).to_have_text(heading)


def test_the_address_of_a_channel_leads_to_its_connection(
    somebody: Operator, broker: BrokerProcess
) -> None:
    with connected(broker) as connection:
        connection.channel()
        (channel,) = [
            each["name"] for each in api(broker, "GET", "channels") if "->" in each["name"]
        ]
        somebody.go(f"#/channels/{quote(channel, safe='')}")
        expect(somebody.page.get_by_role("table")).to_contain_text(channel)


def test_a_message_is_published_again(somebody: Operator, broker: BrokerProcess) -> None:
    for name in ("first-one", "second-one"):
        api(broker, "PUT", f"queues/%2F/{name}", {"durable": True})
    with connected(broker) as connection:
        connection.channel().basic_publish("", "first-one", b"again")
    somebody.go("#/queues/%2F/first-one/messages")
    page = somebody.page
    page.get_by_role("article").get_by_role("checkbox").check()
    somebody.press("Publish again")
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Through this exchange, with this key:").check()
    dialog.get_by_label("Routing key").fill("second-one")
    dialog.get_by_role("button", name="Publish again").click()
    somebody.sees("1 published again.")
    lengths = [
        api(broker, "GET", f"queues/%2F/{name}")["messages"] for name in ("first-one", "second-one")
    ]
    assert lengths == [1, 1]


def test_queues_are_sorted_by_the_age_of_their_oldest_message(
    somebody: Operator, broker: BrokerProcess
) -> None:
    with connected(broker) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        for name in ("aged-1", "aged-2"):
            channel.queue_declare(name, durable=True)
            channel.basic_publish("", name, b"x")
    somebody.go("#/queues?name=aged-&sort=age")
    rows = somebody.page.locator("tbody th a")
    expect(rows).to_have_text(["aged-1", "aged-2"])
    somebody.press("Oldest ↓")
    expect(rows).to_have_text(["aged-2", "aged-1"])


def test_an_operator_policy_and_the_limits_of_a_user_are_set(
    somebody: Operator, broker: BrokerProcess
) -> None:
    api(broker, "PUT", "queues/%2F/bounded", {"durable": True})
    page = somebody.page
    somebody.go("#/policies")
    page.get_by_role("link", name="Operator policies").click()
    somebody.press("New policy")
    page.get_by_label("Name", exact=True).fill("ceiling")
    page.get_by_label("Pattern").fill("^bounded$")
    page.get_by_label("Definition, as JSON").fill('{"max-length": 9}')
    somebody.press("Save")
    somebody.sees("Saved ceiling.")
    assert api(broker, "GET", "queues/%2F/bounded")["operator_policy"] == "ceiling"
    somebody.go("#/users")
    page.get_by_role("button", name="Limits of guest").click()
    page.get_by_label("Most channels").fill("77")
    somebody.press("Save")
    somebody.sees("Saved.")
    (limits,) = api(broker, "GET", "user-limits/guest")
    assert limits["value"] == {"max-channels": 77}
    page.get_by_role("button", name="Limits of guest").click()
    page.get_by_label("Most channels").fill("")
    somebody.press("Save")
    expect(page.get_by_role("region", name="Limits of users", exact=True)).not_to_contain_text("77")
    somebody.press("New topic permission")
    page.get_by_role("dialog").get_by_label("write").fill("^eu[.]")
    somebody.press("Save")
    expect(page.get_by_role("region", name="Topic permissions", exact=True)).to_contain_text(
        "^eu[.]"
    )
    somebody.page.get_by_role("button", name="Take away what guest may on amq.topic in /").click()
    somebody.sees("Taken away.")


def test_a_dialog_stays_until_the_page_shows_what_it_changed(
    somebody: Operator, broker: BrokerProcess
) -> None:
    """Else the next one begins with what was, and what comes late is put over what is typed."""
    page = somebody.page
    somebody.go("#/users")
    held: list[Route] = []

    def hold(route: Route) -> None:
        held.append(route)

    page.get_by_role("button", name="Limits of guest").click()
    page.route("**/api/user-limits", hold)
    page.get_by_label("Most connections").fill("55")
    somebody.press("Save")
    somebody.sees("Saved.")
    expect(page.get_by_role("dialog")).to_be_visible()
    (late,) = held
    late.continue_()
    page.unroute("**/api/user-limits")
    expect(page.get_by_role("dialog")).to_have_count(0)
    page.get_by_role("button", name="Limits of guest").click()
    expect(page.get_by_label("Most connections")).to_have_value("55")
    page.get_by_label("Most connections").fill("")
    somebody.press("Save")
    expect(page.get_by_role("dialog")).to_have_count(0)
    assert api(broker, "GET", "user-limits/guest") == []


def test_what_is_typed_stays_while_figures_come(somebody: Operator, broker: BrokerProcess) -> None:
    page = somebody.page
    somebody.go("#/users")
    page.get_by_role("button", name="Limits of guest").click()
    page.get_by_label("Most channels").fill("33")
    page.wait_for_timeout(FIGURES_MS)
    expect(page.get_by_label("Most channels")).to_have_value("33")
    somebody.press("Cancel")
    somebody.press("New permission")
    page.get_by_label("configure").fill("^mine$")
    page.wait_for_timeout(FIGURES_MS)
    expect(page.get_by_label("configure")).to_have_value("^mine$")
    somebody.press("Cancel")
    api(broker, "PUT", "queues/%2F/typed", {"durable": True})
    with connected(broker) as connection:
        connection.channel().basic_publish("", "typed", b"x")
    somebody.go("#/queues/%2F/typed/messages")
    page.get_by_role("article").get_by_role("checkbox").check()
    somebody.press("Publish again")
    other = page.get_by_role("radio", name="Through this exchange")
    other.check()
    page.wait_for_timeout(FIGURES_MS)
    expect(other).to_be_checked()
    somebody.press("Cancel")


def test_definitions_go_down_and_come_up_again(
    somebody: Operator, broker: BrokerProcess, tmp_path: Path
) -> None:
    api(broker, "PUT", "queues/%2F/defined", {"durable": True, "arguments": {"x-max-length": 7}})
    page = somebody.page
    somebody.go("#/definitions")
    with page.expect_download() as coming:
        somebody.press("Download")
    file = tmp_path / coming.value.suggested_filename
    coming.value.save_as(file)
    assert file.name.endswith("-definitions.json")
    api(broker, "DELETE", "queues/%2F/defined")
    page.get_by_label("File").set_input_files(file)
    somebody.press("Import")
    somebody.sees(f"Imported {file.name}.")
    assert api(broker, "GET", "queues/%2F/defined")["arguments"] == {"x-max-length": 7}
    file.write_text("no JSON")
    page.get_by_label("File").set_input_files(file)
    somebody.press("Import")
    expect(page.get_by_role("status").locator(".bad")).to_have_count(1)
    somebody.complaints.clear()  # the browser says that the answer was 400


def test_a_trace_shows_what_passes_and_nothing_is_left_of_it(
    somebody: Operator, broker: BrokerProcess
) -> None:
    api(broker, "PUT", "queues/%2F/passed", {"durable": True})
    page = somebody.page
    somebody.go("#/trace")
    page.get_by_label("Only").select_option("what is published")
    somebody.press("Start")
    expect(page.get_by_text("Nothing yet.")).to_be_visible()
    rows = page.get_by_role("region", name="Traced messages: table").locator("tbody tr")
    with connected(broker) as connection:
        channel = connection.channel()
        for _ in range(40):  # the trace begins some answers after the button is pressed
            for body in (b"apples", b"pears"):
                channel.basic_publish("", "passed", body)
            page.wait_for_timeout(500)
            if rows.count() > 1:
                break
    expect(rows.first).to_contain_text("passed")
    assert all("publish" in text for text in rows.all_inner_texts())
    page.get_by_label("With this text").fill("apples")
    expect(rows.filter(has_text="pears")).to_have_count(0)
    expect(rows.filter(has_text="apples").first).to_be_visible()
    somebody.press("Stop")
    expect(page.get_by_role("button", name="Start")).to_be_visible()
    for _ in range(50):
        names = [each["name"] for each in api(broker, "GET", "queues")]
        if not any(each.startswith("arneb.trace.") for each in names):
            break
        page.wait_for_timeout(100)
    else:
        pytest.fail(f"expected no queue of the trace, got {names}")
    assert not api(broker, "GET", "vhosts/%2F")["tracing"]


def test_a_cursor_is_drawn_with_its_holes(somebody: Operator, broker: BrokerProcess) -> None:
    api(broker, "PUT", "queues/%2F/drawn", {"durable": True})
    with connected(broker) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        for _ in range(4):
            channel.basic_publish("", "drawn", b"x")
        held = [channel.basic_get("drawn")[0].delivery_tag for _ in range(3)]
        channel.basic_ack(held[1])
        somebody.go("#/queues/%2F/drawn/subscriptions")
        drawing = somebody.page.get_by_role("img", name="amqp: done up to")
        expect(drawing).to_have_accessible_name(re.compile("1 holes behind it, 2 in flight"))
        expect(drawing.locator("rect.away")).to_have_count(1)
        hole = drawing.locator("rect.done").nth(1)
        expect(hole).to_have_attribute("x", "250")
        expect(hole).to_have_attribute("width", "250")


def test_delayed_messages_are_shown_by_when_they_are_due(
    somebody: Operator, broker: BrokerProcess
) -> None:
    with connected(broker) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        arguments = {"x-delayed-type": "topic"}
        channel.exchange_declare("later", "x-delayed-message", durable=True, arguments=arguments)
        for body, hours in ((b"second", 2), (b"first", 1)):
            headers = {"x-delay": hours * 3_600_000}
            channel.basic_publish("later", "k", body, pika.BasicProperties(headers=headers))
    somebody.go("#/delayed")
    somebody.page.get_by_role("button", name="When those of later are due").click()
    rows = somebody.page.get_by_role("region", name="Due in later").locator("tbody tr")
    expect(rows).to_have_count(2)
    expect(rows.first).to_contain_text("first")


def test_times_are_those_of_the_reader_and_utc_is_at_hand_by_touch(
    browser: Browser, broker: BrokerProcess
) -> None:
    with connected(broker) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        channel.queue_declare("timed", durable=True)
        channel.basic_publish("", "timed", b"when?")
    published = api(broker, "GET", "page/messages/%2F/timed")["messages"][0]["published_ms"]

    def shown(zone: str) -> str:
        at = datetime.fromtimestamp(published / 1000, ZoneInfo(zone))
        return f"{at.hour % 12 or 12}:{at:%M:%S} {at:%p}"

    with operator(browser, url_of(broker), size=PHONE, zone="Asia/Kolkata") as reader:
        reader.log_in()
        reader.go("#/queues/%2F/timed/messages")
        at = reader.page.locator("button.time").first
        expect(at).to_contain_text(shown("Asia/Kolkata"))
        at.tap()
        expect(at).to_contain_text(f"{shown('UTC')} UTC")
        expect(reader.page.get_by_label("Published since (UTC)")).to_be_visible()
        reader.go("#/")
        reader.go("#/queues/%2F/timed/messages")
        expect(at).to_contain_text("UTC")
        reader.press("Menu")
        reader.press("Local times")
        expect(at).to_contain_text(shown("Asia/Kolkata"))


def test_a_search_by_time_is_in_the_zone_that_is_shown(
    browser: Browser, broker: BrokerProcess
) -> None:
    with connected(broker) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        channel.queue_declare("searched", durable=True)
        channel.basic_publish("", "searched", b"just now")
    ago, ahead = (datetime.now(UTC) + timedelta(minutes=minutes) for minutes in (-10, 10))
    with operator(browser, url_of(broker), zone="Asia/Kolkata") as reader:
        reader.log_in()
        reader.go("#/queues/%2F/searched/messages")
        for zone in (ZoneInfo("Asia/Kolkata"), UTC):
            for at, found in ((ago, 1), (ahead, 0)):
                text = at.astimezone(zone).strftime("%Y-%m-%dT%H:%M:%S")
                reader.page.get_by_label("Published since").fill(text)
                reader.press("Search")
                reader.sees(f"{found} found")
            if zone is not UTC:
                reader.press("UTC times")


def test_a_route_is_tried(somebody: Operator) -> None:
    somebody.go("#/exchanges/%2F/amq.direct")
    tester = somebody.page.get_by_role("form", name="Route tester")
    tester.get_by_label("Routing key").fill("nobody")
    tester.get_by_role("button", name="Try it").click()
    somebody.sees("To no queue")


def test_everything_can_be_done_by_keys(somebody: Operator) -> None:
    somebody.go("#/")
    page = somebody.page
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="To the content")).to_be_focused()
    for _ in range(4):
        page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(page.locator("main h1")).to_be_focused()


def test_the_page_goes_on_when_the_broker_comes_back(browser: Browser, tmp_path: Path) -> None:
    with BrokerProcess(tmp_path, ["amqp", "http"]) as first:
        port = first.addresses["http"].port
        with operator(browser, url_of(first)) as somebody:
            somebody.log_in()
            somebody.go("#/queues")
            first.stop()
            somebody.sees("The broker does not answer")
            again = f"--http=127.0.0.1:{port}"
            with BrokerProcess(tmp_path, ["amqp", "http"], [again]):
                # Sessions are in memory, so it asks who it is, and shows the same place.
                somebody.page.get_by_label("User").fill("guest")
                somebody.page.get_by_label("Password").fill("guest")
                somebody.press("Log in")
                expect(somebody.page.locator("main h1")).to_have_text("Queues and topics")
            somebody.complaints.clear()  # of a port that nobody listened at
