"""The command line: arguments, output and exit codes, with a real broker."""

import csv
import io
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pika
import pytest
from hypothesis import given
from hypothesis import strategies as st

from arneb.ctl.calling import Answer, HttpCaller, SocketCaller, Unreachable
from arneb.ctl.exits import ExitCode
from arneb.ctl.program import COMMANDS, parse, run, way_in
from arneb.ctl.refusals import REASONS
from arneb.demo.process import BrokerProcess

USAGE = ExitCode.USAGE


@dataclass
class Ran:
    """The outcome of a command line."""

    code: ExitCode
    out: str
    errors: str


def ran(directory: Path, *words: str, **environment: str) -> Ran:
    out, errors = list[str](), list[str]()
    given_ = {"ARNEB_DATA_DIR": str(directory), **environment}
    code = run(words, write=out.append, complain=errors.append, environment=given_)
    return Ran(code, "\n".join(out), "\n".join(errors))


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, BrokerProcess]]:
    data = tmp_path_factory.mktemp("ctl") / "data"
    with BrokerProcess(data, listeners=("amqp", "http")) as process:
        yield data, process


def test_lists_have_columns_headers_and_forms(broker: tuple[Path, BrokerProcess]) -> None:
    data, process = broker
    parameters = pika.ConnectionParameters(
        "127.0.0.1", process.amqp_port, client_properties={"connection_name": "a-name"}
    )
    with pika.BlockingConnection(parameters) as connection:
        channel = connection.channel()
        channel.queue_declare("q1", durable=True, arguments={"x-max-length": 10})
        channel.queue_declare('a\t"b', exclusive=True)
        channel.confirm_delivery()  # so that it exists when the lists are requested
        channel.basic_publish("", "q1", b"x")
        assert ran(data, "list_queues").out.splitlines()[:3] == [
            "Timeout: 60.0 seconds ...", "Listing queues for vhost / ...", "name\tmessages",
        ]  # fmt: skip
        assert "q1\t1" in ran(data, "-q", "list_queues").out.splitlines()
        silent = ran(data, "-s", "list_queues", "name").out.splitlines()
        assert silent == ran(data, "list_queues", "name", "-q", "--no-table-headers").out.split(
            "\n"
        )
        found = ran(data, "list_queues", "name", "arguments", "--formatter", "json")
        assert json.loads(found.out)[1] == {
            "name": "q1", "arguments": [["x-max-length", "signedint", 10]],
        }  # fmt: skip
        rows = list(csv.reader(io.StringIO(ran(data, "list_queues", "--formatter=csv").out)))
        assert rows == [["name", "messages"], ['a\t"b', "0"], ["q1", "1"]]
        assert 'q1\t[{"x-max-length",10}]' in ran(data, "list_queues", "name,arguments").out
        assert ran(data, "-q", "list_queues", "--offline").out == ""
        [row] = ran(
            data, "-s", "list_connections", "pid", "peer_port", "client_properties"
        ).out.split("\n")
        pid, port, properties = row.split("\t")
        assert int(port)
        assert '{"connection_name","a-name"}' in properties
        assert " " not in pid
        owners = ran(data, "-s", "list_queues", "name", "owner_pid").out
        assert f'a\t"b\t{pid}' in owners
        assert ran(data, "close_connection", pid, "Closed via rabbitmqctl").code == 0
        with pytest.raises(
            pika.exceptions.ConnectionClosedByBroker, match="Closed via rabbitmqctl"
        ):
            connection.process_data_events(5)
    assert ran(data, "delete_queue", "q1").out.endswith("deleted with 1 ready messages")
    assert ran(data, "delete_queue", "q1").code == USAGE


EXITS = [
    (["list_queues", "nope"], 64),
    (["nope"], 64),
    ([], 64),
    (["list_queues", "--nope"], 64),
    (["list_queues", "--priority", "1"], 64),
    (["delete_user"], 64),
    (["delete_user", "a", "b"], 64),
    (["list_queues", "--online", "--offline"], 64),
    (["eval", "1+1."], 64),
    (["delete_queue", "nope"], 64),
    (["list_queues", "-t", "soon"], 64),
    (["list_queues", "--formatter", "nope"], 64),
    (["delete_vhost", "nope"], 65),
    (["list_permissions", "-p", "nope"], 65),
    (["authenticate_user", "guest", "bad"], 65),
    (["set_vm_memory_high_watermark", "2"], 65),
    (["set_vm_memory_high_watermark", "absolute", "much"], 65),
    (["import_definitions", "/nope"], 65),
    (["delete_user", "nope"], 67),
    (["set_user_tags", "nope", "x"], 67),
    (["set_permissions", "nope", "a", "b", "c"], 67),
    (["set_permissions", "guest", "(", "b", "c"], 69),
    (["purge_queue", "nope"], 69),
    (["set_policy", "p", "(", "{}"], 69),
    (["set_policy", "p", "a", "{bad"], 69),
    (["clear_policy", "nope"], 69),
    (["check_port_listener", "1"], 69),
    (["check_protocol_listener", "mqtt"], 69),
    (["set_log_level", "loud"], 69),
    (["delete_shovel", "nope"], 69),
    (["restart_shovel", "nope"], 69),
    (["update_vhost_metadata", "/"], 64),
    (["update_vhost_metadata", "nope", "--tags", "a"], 65),
    (["set_permissions_globally", "nope", "a", "b", "c"], 67),
    (["add_user", "guest", "p"], 70),
    (["export_definitions", "/nope/nope"], 73),
    (["set_topic_permissions", "--help"], 0),
    (["help"], 0),
    (["help", "list_queues"], 0),
    (["list_queues", "-p", "nope"], 0),
    (["add_user", "x", "y", "--dry-run"], 0),
    (["authenticate_user", "guest", "guest"], 0),
    (["-n", "rabbit@anywhere", "-l", "ping"], 0),
    (["check_running"], 0),
    (["federation_status", "--only-down"], 0),
    (["list_deprecated_features", "--used"], 0),
    (["-q", "check_port_connectivity"], 0),
    (["check_local_alarms"], 0),
    (["check_virtual_hosts"], 0),
    (["check_certificate_expiration", "--within", "2", "--unit", "months"], 0),
    (["node_health_check"], 0),
    (["await_startup", "--timeout", "1"], 0),
    (["enable", "rabbitmq_management"], 0),
    (["enable", "rabbitmq_mqtt"], 69),
]


@pytest.mark.parametrize(("words", "code"), EXITS, ids=lambda each: str(each)[:40])
def test_the_exit_code_says_what_was_wrong(
    broker: tuple[Path, BrokerProcess], words: list[str], code: int
) -> None:
    found = ran(broker[0], *words)
    assert (found.code, bool(found.errors)) == (code, code != 0), found
    assert "Traceback" not in found.errors


@pytest.mark.parametrize("name", sorted(REASONS))
def test_what_does_not_apply_here_is_refused_with_one_sentence(tmp_path: Path, name: str) -> None:
    found = ran(tmp_path, name, "x")
    assert found.code == ExitCode.UNAVAILABLE
    assert found.errors.startswith("Error:\n")
    assert found.errors.count("\n") == 1


CHANGES = """\
add_vhost v/1 --description d --tags a,b|list_vhosts name description tags|v/1\td\t[a, b]
update_vhost_metadata v/1 --description e|list_vhosts name description tags|v/1\te\t[a, b]
update_vhost_metadata v/1 --default-queue-type quorum|list_vhosts name default_queue_type|\
v/1\tquorum
add_user u p|list_users|u\t[]
set_permissions_globally u g g g|list_user_permissions u|v/1\tg\tg\tg
set_permissions_globally u g g g|list_user_permissions u|/\tg\tg\tg
set_user_tags u monitoring foo|list_users|u\t[monitoring, foo]
set_permissions -p v/1 u ^c W .*|list_permissions -p v/1|u\t^c\tW\t.*
set_permissions -p v/1 u ^c W .*|list_user_permissions u|v/1\t^c\tW\t.*
set_topic_permissions -p v/1 u amq.topic ^a .*|list_topic_permissions -p v/1|u\tamq.topic\t^a\t.*
clear_topic_permissions -p v/1 u|list_topic_permissions -p v/1|
clear_permissions -p v/1 u|list_permissions -p v/1|
set_policy -p v/1 --priority 2 --apply-to queues p ^q {"expires":5}|list_policies -p v/1|\
v/1\tp\t^q\tqueues\t{"expires":5}\t2
clear_policy -p v/1 p|list_policies -p v/1|
set_operator_policy -p v/1 o ^q {"max-length":50}|list_operator_policies -p v/1|\
v/1\to\t^q\tall\t{"max-length":50}\t0
clear_operator_policy -p v/1 o|list_operator_policies -p v/1|
set_global_parameter g {"a":[1,2]}|list_global_parameters|g\t{"a":[1,2]}
clear_global_parameter g|list_global_parameters|-g
set_vhost_limits -p v/1 {"max-queues":10}|list_vhost_limits -p v/1|{"max-queues":10}
clear_vhost_limits -p v/1|list_vhost_limits -p v/1|
set_user_limits u {"max-connections":3}|list_user_limits --user u|{"max-connections":3}
clear_user_limits u all|list_user_limits --user u|
set_cluster_name cn|list_global_parameters|cluster_name\t"cn"
trace_on -p v/1|list_vhosts name tracing|v/1\ttrue
trace_on -p v/1|list_vhosts name description default_queue_type|v/1\te\tquorum
trace_off -p v/1|list_vhosts name tracing|v/1\tfalse
clear_password u|list_users|u\t[monitoring, foo]
delete_user u|list_users|-u\t
delete_vhost v/1|list_vhosts|-v/1
"""


def test_changes_appear_in_lists(broker: tuple[Path, BrokerProcess]) -> None:
    data, _ = broker
    for line in CHANGES.splitlines():
        change, look, wanted = line.split("|")
        done = ran(data, *change.split())
        assert done.code == 0, (change, done)
        found = ran(data, "-s", *look.split()).out.splitlines()
        if wanted.startswith("-"):
            assert not any(each.startswith(wanted[1:]) for each in found), (change, found)
        elif wanted:
            assert wanted in found, (change, found)
        else:
            assert "".join(found) == "", (change, found)


def test_shovels_are_listed_restarted_and_deleted(broker: tuple[Path, BrokerProcess]) -> None:
    data, process = broker
    uri = f"amqp://guest:guest@127.0.0.1:{process.amqp_port}"
    value = {"src-uri": "amqp://", "src-queue": "s1", "dest-uri": uri, "dest-queue": "s2"}
    assert ran(data, "set_parameter", "shovel", "mover", json.dumps(value)).code == 0

    def shown() -> dict[str, str]:
        [found] = json.loads(ran(data, "shovel_status", "--formatter", "json").out)
        return dict(found)

    for before in ("", shown()["last_changed"]):
        while shown()["state"] == "starting":
            pass
        assert before <= shown()["last_changed"]
        assert ran(data, "restart_shovel", "mover").code == 0
    found = shown()
    assert (found["name"], found["vhost"], found["type"]) == ("mover", "/", "dynamic")
    assert "guest:guest" not in str(found)
    assert ran(data, "delete_shovel", "mover").code == 0
    assert ran(data, "-s", "shovel_status").out == ""
    assert ran(data, "list_parameters", "-s").out == ""


def test_a_changed_password_works_and_tags_stay(
    broker: tuple[Path, BrokerProcess],
) -> None:
    data, _ = broker
    assert ran(data, "add_user", "w", "one").code == 0
    assert ran(data, "set_user_tags", "w", "management").code == 0
    assert ran(data, "change_password", "w", "two").code == 0
    assert ran(data, "authenticate_user", "w", "one").code == ExitCode.DATA
    assert ran(data, "authenticate_user", "w", "two").code == 0
    assert "w\t[management]" in ran(data, "list_users").out
    assert ran(data, "clear_password", "w").code == 0
    assert ran(data, "authenticate_user", "w", "two").code == ExitCode.DATA
    assert ran(data, "delete_user", "w").code == 0


def test_definitions_are_exported_and_imported(
    broker: tuple[Path, BrokerProcess], tmp_path: Path
) -> None:
    data, _ = broker
    assert ran(data, "add_vhost", "kept").code == 0
    assert ran(data, "export_definitions", str(tmp_path / "d.json")).code == 0
    exported = json.loads(ran(data, "-q", "export_definitions", "-").out)
    assert exported["vhosts"]
    shown = ran(data, "-q", "list_global_parameters").out
    assert "internal_cluster_id\t" in shown, shown
    assert [each["name"] for each in exported["global_parameters"]] == ["cluster_name"]
    assert ran(data, "delete_vhost", "kept").code == 0
    assert ran(data, "import_definitions", str(tmp_path / "d.json")).code == 0
    assert "kept" in ran(data, "list_vhosts").out.splitlines()
    (tmp_path / "bad.json").write_text("{")
    assert ran(data, "import_definitions", str(tmp_path / "bad.json")).code == ExitCode.DATA


def test_alarms_are_set_and_cleared_by_watermark_and_by_the_text_that_test_suites_use(
    broker: tuple[Path, BrokerProcess],
) -> None:
    data, _ = broker
    set_ = "rabbit_alarm:set_alarm({{resource_limit, memory, node()}, []})."
    clear = "rabbit_alarm:clear_alarm({resource_limit, memory, node()})."
    for raise_, lower in (
        (["set_vm_memory_high_watermark", "0.000000001"], ["set_vm_memory_high_watermark", "0.4"]),
        (["set_vm_memory_high_watermark", "absolute", "1kB"], ["eval", clear]),
        (["eval", set_], ["eval", clear]),
        (["eval", set_.replace("memory", "disk")], ["eval", clear.replace("memory", "disk")]),
        (["set_disk_free_limit", "900000GB"], ["set_disk_free_limit", "50MB"]),
        (["set_disk_free_limit", "mem_relative", "1000"], ["set_disk_free_limit", "1MiB"]),
    ):
        assert ran(data, *raise_).code == 0, raise_
        assert ran(data, "check_local_alarms").code == ExitCode.UNAVAILABLE
        assert ran(data, *lower).code == 0, lower
        assert ran(data, "check_local_alarms").code == 0
    for text, output in (
        ('application:set_env(rabbit, loopback_users, [<<"guest">>]).', "ok"),
        ("application:set_env(rabbit, channel_max, 2047).", "ok"),
        ("application:set_env(rabbit, consumer_timeout, 1800000).", "ok"),
        ("application:get_env(rabbit,consumer_timeout).", "{ok,1800000}"),
        ("rabbit_mnesia:is_clustered().", "false"),
    ):
        assert ran(data, "-q", "eval", text).out == output


def test_the_settings_are_shown_without_secrets(broker: tuple[Path, BrokerProcess]) -> None:
    data, _ = broker
    for command in ("environment", "status", "report", "cluster_status"):
        found = ran(data, command)
        assert found.code == 0
        assert '"password": "guest"' not in found.out
    assert json.loads(ran(data, "-q", "environment", "--formatter", "json").out)["amqp"]
    [node] = json.loads(ran(data, "status", "--formatter", "json").out)["listeners"][:1]
    assert node["protocol"] == "amqp"


def test_everything_but_the_process_can_be_managed_by_url(
    broker: tuple[Path, BrokerProcess],
) -> None:
    data, process = broker
    url = f"http://guest:guest@{process.addresses['http']}"
    assert "name" in ran(data, "--url", url, "list_vhosts").out
    assert ran(data, "list_vhosts", ARNEB_URL=url, ARNEB_DATA_DIR="").code == 0
    assert ran(data, "--url", url, "stop_app").code == ExitCode.UNAVAILABLE
    wrong = url.replace("guest:guest", "guest:wrong")
    assert ran(data, "--url", wrong, "list_vhosts").code == ExitCode.NO_PERMISSION
    assert ran(data, "--url", "ftp://x", "list_vhosts").code == ExitCode.CONFIG
    assert ran(data, "--url", "http://127.0.0.1:1", "ping").code == ExitCode.UNAVAILABLE


def test_a_broker_is_stopped_and_started_by_commands(tmp_path: Path) -> None:
    data = tmp_path / "data"
    assert ran(data, "ping").code == ExitCode.UNAVAILABLE
    assert ran(data, "await_startup", "-t", "0").code == ExitCode.TIMED_OUT
    with BrokerProcess(data, listeners=("amqp",)) as process:
        assert ran(data, "await_startup").code == 0
        assert ran(data, "add_vhost", "v").code == 0
        assert ran(data, "reset").code == USAGE
        assert ran(data, "stop_app").code == 0
        stopped = ran(data, "list_queues")
        assert (stopped.code, stopped.out) == (USAGE, "")
        assert "requires the 'rabbit' app to be running" in stopped.errors
        assert ran(data, "ping").code == 0
        assert ran(data, "check_running").code == ExitCode.UNAVAILABLE
        assert ran(data, "await_startup", "--timeout", "0").code == ExitCode.UNAVAILABLE
        assert ran(data, "start_app").code == 0
        assert "v" in ran(data, "list_vhosts").out.split()
        assert ran(data, "stop_app").code == ran(data, "reset").code == 0
        assert ran(data, "start_app").code == 0
        assert "v" not in ran(data, "list_vhosts").out.split()
        assert ran(data, "stop").code == 0
        assert process.stop() < 5  # it has ended, so no signal reaches it
        assert process.returncode == 0


@given(
    st.lists(st.sampled_from(["-q", "--silent", "-p v", "--formatter=json", "-t 7"]), unique=True),
    st.lists(st.sampled_from(["name", "messages", "durable"]), max_size=3),
    st.randoms(use_true_random=False),
)
def test_options_may_be_anywhere(options: list[str], columns: list[str], random: object) -> None:
    words = [["list_queues"], *([each] for each in columns)]
    plain = parse([word for each in (*words, *(o.split() for o in options)) for word in each])
    mixed = list(words)
    for each in options:
        mixed.insert(random.randrange(len(mixed) + 1), each.split())  # type: ignore[attr-defined]
    assert parse([word for each in mixed for word in each]) == plain
    assert plain.arguments == columns


def test_the_brokers_address_can_be_given_in_three_ways(tmp_path: Path) -> None:
    line = parse(["ping", "--data-dir", "a"])
    assert way_in(line, {"ARNEB_URL": "http://x"}) == SocketCaller(Path("a"))
    assert way_in(parse(["ping"]), {"ARNEB_URL": "http://x"}) == HttpCaller("http://x")
    assert way_in(parse(["ping"]), {"ARNEB_DATA_DIR": "b"}) == SocketCaller(Path("b"))
    assert "p" not in repr(HttpCaller("http://h", "u", "p")).replace("http", "").replace(
        "HttpC", ""
    )


def test_every_command_is_described() -> None:
    for name, command in COMMANDS.items():
        assert name == command.name
        assert command.summary
        assert command.most is None or command.least <= command.most


def test_an_answer_from_something_else_is_recognised() -> None:
    assert Answer(500, None).reason == "status 500"
    with pytest.raises(Unreachable):
        SocketCaller(Path("/nope")).call("GET", "/")
