"""Pulsar's admin API on a real socket, as the broker serves it."""

import http.client
import json
from contextlib import closing
from pathlib import Path

from arneb.demo.process import BrokerProcess


def connected(broker: BrokerProcess) -> http.client.HTTPConnection:
    address = broker.addresses["http-pulsar"]
    return http.client.HTTPConnection(address.host, address.port, timeout=10)


def test_requests_and_answers_pass_through(tmp_path: Path) -> None:
    with (
        BrokerProcess(tmp_path / "data", listeners=("pulsar", "http-pulsar")) as broker,
        closing(connected(broker)) as connection,
    ):

        def call(method: str, path: str, body: bytes = b"") -> tuple[int, bytes]:
            connection.request(method, path, body or None)
            answer = connection.getresponse()
            return answer.status, answer.read()

        default = "/admin/v2/persistent/public/default"
        assert call("PUT", f"{default}/a%252Fb%20c/partitions", b"2") == (204, b"")
        status, document = call(
            "GET", f"{default}/a%252Fb%20c/partitions?checkAllowAutoCreation=true"
        )
        assert (status, json.loads(document)["partitions"]) == (200, 2)
        assert json.loads(call("GET", f"{default}/partitioned")[1]) == [
            "persistent://public/default/a%2Fb c"
        ]
        lookup = call("GET", "/lookup/v2/topic/persistent/public/default/t")[1]
        assert json.loads(lookup)["brokerUrl"] == broker.pulsar_url
        assert call("GET", "/admin/v2/brokers/health") == (200, b"ok")
        for path in ("/metrics", "/metrics/"):
            status, document = call("GET", path)
            assert (status, b"arneb_topics" in document) == (200, True)
        assert call("HEAD", "/admin/v2/brokers/health") == (200, b"")
        part = "pulsar/system/transaction_coordinator_assign-partition-0"
        lookup = call("GET", f"/lookup/v2/topic/persistent/{part}")[1]
        assert json.loads(lookup)["brokerUrl"] == broker.pulsar_url
        for path, expected in (("/admin/v2/nothing", 404), ("/", 404), (f"{default}/t", 405)):
            status, document = call("GET", path)
            assert (status, bool(json.loads(document)["reason"])) == (expected, True)
        for method, path, expected in (
            ("PUT", f"{default}/a%0Ab", 412),
            ("PUT", f"{default}/t/subscription/a%0Ab", 204),
            ("GET", "*", 404),
            ("POST", "/metrics", 405),
        ):
            status, document = call(method, path)
            assert (status, bool(document and json.loads(document)["reason"])) == (
                expected,
                expected >= 400,
            )
        # Java clients that look topics up over HTTP show only the status line.
        connection.request("GET", "/lookup/v2/topic/persistent/public/none/t")
        refused = connection.getresponse()
        assert (refused.status, refused.reason) == (404, "Namespace not found")
        refused.read()
        path = f"{default}/t/partitions?checkAllowAutoCreation="
        assert call("GET", path.replace("/t/", "/new/") + "false&checkAllowAutoCreation=true")[
            0
        ] == (404)
        assert call("OPTIONS", f"{default}/t")[1] == b"DELETE, OPTIONS, PUT"
        status, document = call("POST", f"{default}/t/terminate", b"x" * (1 << 20 | 1))
        assert (status, bool(json.loads(document)["reason"])) == (413, True)
