"""Users over HTTP, created with their permissions and limits."""

from pathlib import Path
from typing import Any

import pytest
from tests.broker.http.management.kit import managed

ALL = {"configure": ".*", "write": "^w", "read": ""}


async def test_a_new_user_gets_the_permissions_in_the_body_and_a_present_one_keeps_its_own(
    tmp_path: Path,
) -> None:
    body = {"password": "p", "tags": "management"}
    async with managed(tmp_path) as call:
        given = {**body, "permissions": {"/": ALL, "v/m": {**ALL, "read": "^r"}}}
        assert (await call("PUT", "users/new", given)).status == 201
        found = await call.does("GET", "users/new/permissions")
        assert found == [
            {"user": "new", "vhost": "/", **ALL},
            {"user": "new", "vhost": "v/m", **ALL, "read": "^r"},
        ]
        assert [each["name"] for each in await call.does("GET", "vhosts", user="new")] == [
            "/", "v/m",
        ]  # fmt: skip
        changed = {**body, "permissions": {"/": {**ALL, "write": ""}}}
        assert (await call("PUT", "users/new", changed)).status == 204
        assert await call.does("GET", "users/new/permissions") == found


@pytest.mark.parametrize(
    "permissions",
    [{"none": ALL}, {"/": {"configure": ""}}, {"/": {**ALL, "read": "["}}, {"/": 1}, "/"],
)
async def test_a_user_with_impossible_permissions_is_not_created(
    tmp_path: Path, permissions: Any
) -> None:
    async with managed(tmp_path) as call:
        body = {"password": "p", "tags": "", "permissions": permissions}
        assert (await call("PUT", "users/new", body)).status == 400
        assert (await call("GET", "users/new")).status == 404


async def test_limits_in_the_body_are_added_to_those_of_the_user(tmp_path: Path) -> None:
    async with managed(tmp_path) as call:
        for limits, shown in (
            ({"max-channels": 5}, {"max-channels": 5}),
            ({"max-connections": 2}, {"max-channels": 5, "max-connections": 2}),
            ({}, {"max-channels": 5, "max-connections": 2}),
        ):
            body = {"password": "p", "tags": "", "limits": limits}
            await call.does("PUT", "users/new", body)
            assert (await call.does("GET", "users/new"))["limits"] == shown
        for limits in ({"max-queues": 1}, {"max-channels": "1"}, 1):
            body = {"password": "p", "tags": "changed", "limits": limits}
            assert (await call("PUT", "users/new", body)).status == 400
        assert (await call.does("GET", "users/new"))["tags"] == []


async def test_without_a_password_a_new_user_gets_the_limits_and_a_present_one_keeps_its_own(
    tmp_path: Path,
) -> None:
    async with managed(tmp_path) as call:
        for limit in (5, 6):
            body = {"tags": "", "limits": {"max-channels": limit}}
            await call.does("PUT", "users/new", body)
            assert (await call.does("GET", "users/new"))["limits"] == {"max-channels": 5}
        imported = {"users": [{"name": "new", "tags": "", "limits": {"max-channels": 7}}]}
        await call.does("POST", "definitions", imported)
        assert (await call.does("GET", "users/new"))["limits"] == {"max-channels": 5}


async def test_limits_in_definitions_are_added_to_those_of_the_user(tmp_path: Path) -> None:
    async with managed(tmp_path) as call:
        body = {"password": "p", "tags": "", "limits": {"max-channels": 5, "max-connections": 2}}
        await call.does("PUT", "users/new", body)
        user = {"name": "new", "password_hash": "", "tags": "", "limits": {"max-channels": 7}}
        await call.does("POST", "definitions", {"users": [user]})
        shown = (await call.does("GET", "users/new"))["limits"]
        assert shown == {"max-channels": 7, "max-connections": 2}


@pytest.mark.parametrize("name", ["password", "password_hash"])
async def test_a_password_of_null_is_refused_and_changes_nothing(tmp_path: Path, name: str) -> None:
    async with managed(tmp_path) as call:
        await call.does("PUT", "users/new", {"password": "p", "tags": "management"})
        before = await call.does("GET", "users/new")
        assert (await call("PUT", "users/new", {name: None, "tags": ""})).status == 400
        body = {"users": [{"name": "new", name: None, "tags": ""}]}
        assert (await call("POST", "definitions", body)).status == 400
        assert await call.does("GET", "users/new") == before
