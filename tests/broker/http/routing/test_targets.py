"""What an HTTP request is about, according to its path."""

from urllib.parse import quote

import pytest

from arneb.http.management.router import ROOT, Route
from arneb.http.management.table import ROUTER
from arneb.http.routing.routed import EVERYTHING_ELSE
from arneb.http.routing.targets import management_target

FILLED = {":vhost": "a/b c", ":topic": "persistent://t/a/x/y"}


@pytest.mark.parametrize("route", ROUTER.routes, ids=lambda each: f"{each.method} {each.path}")
def test_every_path_with_a_vhost_or_a_topic_is_about_its_namespace(route: Route) -> None:
    segments = route.path.strip("/").split("/")
    path = ROOT + "/".join(quote(FILLED.get(each, each.strip(":")), safe="") for each in segments)
    expected = EVERYTHING_ELSE
    if ":vhost" in segments:
        expected = "of a/b c"
    elif ":topic" in segments:
        expected = "t/a"
    assert management_target(path, "of {}".format).namespace == expected
