"""What clients accept; the statuses are those that RabbitMQ 3.10.8 answers."""

from pathlib import Path

import pytest
from tests.broker.http.management.kit import managed

STATUSES = {
    "application/json": 200,
    "APPLICATION/JSON": 200,
    "application/*": 200,
    "*/*": 200,
    "*/*;q=0": 200,
    "application/json;q=0": 200,
    "application/json ; q=0.5 ; ext=1": 200,
    "application/bert, application/json": 200,
    "text/html, application/json;q=0.5": 200,
    'text/html;level="a\\",b", */*;q=0.1': 200,
    "application/json,,text/plain": 200,
    "text/html": 406,
    "text/*": 406,
    "*/json": 406,
    "": 406,
    ",": 406,
    "application/json; charset=utf-8": 406,
    "application/json;charset=UTF-8;q=0.9": 406,
    "application/*;version=1": 406,
    "*/*;charset=utf-8": 406,
    "nonsense": 400,
    "*": 400,
    "a/b/c": 400,
    "application/json;q=2": 400,
    "application/json, text/html;q=x": 400,
}


@pytest.mark.parametrize("accept", STATUSES)
async def test_json_is_answered_if_it_is_accepted(tmp_path: Path, accept: str) -> None:
    async with managed(tmp_path) as call:
        answered = await call("GET", "overview", accept=accept)
        assert answered.status == STATUSES[accept]
        assert (answered.reply.body is None) == (answered.status != 200)


async def test_what_cannot_be_answered_is_not_done_and_only_permitted_callers_learn_why(
    tmp_path: Path,
) -> None:
    user = {"password": "p", "tags": ""}
    async with managed(tmp_path) as call:
        assert (await call("PUT", "users/new", user, accept="text/html")).status == 406
        assert (await call("GET", "users/new")).status == 404
        assert (await call("GET", "users/none", accept="text/html")).status == 406
        assert (await call("GET", "users", user=None, accept="text/html")).status == 401
        assert (await call("GET", "users", user="management", accept="text/html")).status == 401
        assert (await call("OPTIONS", "users", accept="text/html")).status == 200
