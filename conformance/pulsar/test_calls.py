"""How requests to the admin API may be written: methods, slashes, encoded names, repeated and empty
parameters."""

import http.client
import json
from typing import Any
from urllib.parse import quote, quote_plus, urlsplit

import pytest
from conformance.pulsar.admin import PERSISTENT, Admin, local
from conformance.pulsar.conftest import BrokerUrls, Named

WITHIN_S = 30.0


class Caller:
    """Sends requests exactly as written, where HTTP clients would normalise them."""

    def __init__(self, url: str) -> None:
        self._where = urlsplit(url).netloc

    def __repr__(self) -> str:
        return f"<Caller of {self._where}>"

    def __call__(self, method: str, path: str, body: Any = None) -> tuple[int, set[str], bytes]:
        """The status, the methods in ``Allow``, and the body."""
        connection = http.client.HTTPConnection(self._where, timeout=WITHIN_S)
        connection.putrequest(method, path)
        content = None if body is None else json.dumps(body).encode()
        if content is not None:
            connection.putheader("Content-Type", "application/json")
            connection.putheader("Content-Length", str(len(content)))
        connection.endheaders(content)
        answer = connection.getresponse()
        body = answer.read()
        connection.close()
        allowed = answer.getheader("Allow") or ""
        return answer.status, {each.strip() for each in allowed.split(",") if each}, body


@pytest.fixture
def call(broker_urls: BrokerUrls) -> Caller:
    if not broker_urls.admin:
        pytest.skip("ARNEB_ADMIN_URL is not set")
    return Caller(broker_urls.admin)


def test_a_path_says_by_which_methods_it_is_asked(call: Caller) -> None:
    for path, methods in (
        ("/admin/v2/clusters", {"GET"}),
        ("/admin/v2/clusters/standalone", {"GET", "PUT", "POST", "DELETE"}),
        (PERSISTENT + "t", {"PUT", "DELETE"}),
    ):
        head = {"HEAD"} if "GET" in methods else set()
        status, allowed, body = call("OPTIONS", path)
        assert (status, allowed) == (200, {"OPTIONS", *methods, *head})
        assert {each.strip() for each in body.decode().split(",")} == allowed
        status, allowed, _ = call("PATCH", path)
        assert (status, allowed - {"HEAD"}) == (405, {"OPTIONS", *methods})
    assert call("OPTIONS", "/admin/v2/nothing")[0] == 404


def test_a_head_request_has_the_status(call: Caller) -> None:
    for path in ("/admin/v2/clusters", "/admin/v2/brokers/health", "/admin/v2/clusters/none"):
        status, _, body = call("GET", path)
        assert body
        assert call("HEAD", path) == (status, set(), b"")


def test_a_slash_at_the_end_is_passed_over_and_no_other(call: Caller) -> None:
    assert call("GET", "/admin/v2/clusters/")[0] == 200
    for path in ("/admin/v2/clusters//", "/admin/v2//clusters", "//admin/v2/clusters"):
        assert call("GET", path)[0] == 404
    for path in ("/admin/v2/namespaces/public//", "/admin/v2/namespaces/public/default//"):
        assert call("DELETE", path)[0] in (404, 405)


def test_names_are_encoded_as_forms_are(call: Caller, admin: Admin, name: Named) -> None:
    topic, subscription = name("topic"), name("subscription")
    path = f"{PERSISTENT}{topic}+a%2Bb"
    assert call("PUT", path, {})[0] == 204
    assert f"persistent://public/default/{topic} a+b" in admin.get(PERSISTENT.rstrip("/"))
    assert call("PUT", f"{path}/subscription/{subscription}+x", "earliest")[0] == 204
    same = f"{PERSISTENT}{topic}%20a%2Bb"
    assert json.loads(call("GET", f"{same}/subscriptions")[2]) == [f"{subscription} x"]
    assert call("DELETE", f"{same}/subscription/{subscription}%20x")[0] == 204
    assert call("DELETE", path)[0] == 204


@pytest.mark.parametrize("half", ["%", "%4", "%ZZ"])
def test_half_an_encoded_character_is_refused(call: Caller, half: str) -> None:
    assert call("PUT", f"{PERSISTENT}{half}", {})[0] == 400


def test_of_a_parameter_that_comes_twice_the_first_counts(
    call: Caller, admin: Admin, name: Named
) -> None:
    path = f"{PERSISTENT}{name('topic')}/partitions?checkAllowAutoCreation="
    assert call("GET", f"{path}false&checkAllowAutoCreation=true")[0] == 404
    assert call("GET", f"{path}true&checkAllowAutoCreation=false")[0] == 200


@pytest.mark.parametrize(
    ("flag", "shown"), [("", 2), ("=", 2), ("=TRUE", 2), ("=1", 0), ("=yes", 0), ("=false", 0)]
)
def test_an_empty_flag_says_nothing(
    call: Caller, admin: Admin, name: Named, flag: str, shown: int
) -> None:
    topic = name("topic")
    admin.put(f"{topic}/partitions", 2)
    _, _, answer = call("GET", f"{PERSISTENT}{topic}/partitioned-stats?perPartition{flag}")
    assert len(json.loads(answer)["partitions"]) == shown


def test_the_topics_of_a_bundle_are_listed(call: Caller, admin: Admin, topic: str) -> None:
    admin.put(local(topic))
    found = f"/lookup/v2/topic/persistent/public/default/{local(topic)}/bundle"
    bundle = call("GET", found)[2].decode()
    path = PERSISTENT.rstrip("/")
    assert topic in admin.get(path, bundle=bundle)
    assert admin.get(path, bundle="none") == []


def test_where_there_is_no_message_none_is_examined(call: Caller, admin: Admin, topic: str) -> None:
    admin.put(local(topic))
    for query in ("", "?initialPosition=x", "?messagePosition="):
        status, _, body = call("GET", f"{PERSISTENT}{local(topic)}/examinemessage{query}")
        assert (status, b"total message is zero" in body) == (412, True)


def test_what_no_cluster_has_is_not_there(call: Caller) -> None:
    cluster = "/admin/v2/clusters/standalone"
    assert call("GET", f"{cluster}/peers") == (200, set(), b"")
    assert call("GET", f"{cluster}/failureDomains") == (200, set(), b"{}")
    for path in ("failureDomains/x", "namespaceIsolationPolicies"):
        status, _, body = call("GET", f"{cluster}/{path}")
        assert (status, "does not exist" in json.loads(body)["reason"]) == (404, True)


def test_subscriptions_are_encoded_twice(call: Caller, admin: Admin, name: Named) -> None:
    """As Pulsar's client in Java does: as in a form, and then as a part of a path."""
    topic, subscription = name("topic"), f"{name('subscription')}+a b/c:%41"
    path = f"{PERSISTENT}{topic}"
    sent = quote(quote_plus(subscription), safe="")
    assert call("PUT", path, {})[0] == 204
    assert call("PUT", f"{path}/subscription/{sent}", "earliest")[0] == 204
    assert admin.get(f"{path}/subscriptions") == [subscription]
    assert call("POST", f"{path}/subscription/{sent}/skip_all")[0] == 204
    assert call("DELETE", f"{path}/subscription/{sent}")[0] == 204
    assert admin.get(f"{path}/subscriptions") == []
    assert call("DELETE", path)[0] == 204
