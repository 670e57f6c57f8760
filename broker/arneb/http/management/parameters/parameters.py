"""Parameters of vhosts and of the node over HTTP.

The rule: vhost limits and operator policies are parameters too, as in RabbitMQ, and each is kept in
one place.
"""

from collections.abc import Iterator
from typing import Any, Final

from arneb.http.management.lists.lists import Source, listed, listing_of
from arneb.http.management.parameters.federation import UPSTREAM, UPSTREAM_SET, federation_in
from arneb.http.management.parameters.policies import policy_document, policy_in
from arneb.http.management.parameters.policy_checks import invalid_policy
from arneb.http.management.parameters.shovels import check_shovel, settings_in
from arneb.http.management.requests.calls import (
    CREATED,
    DONE,
    Body,
    Call,
    Document,
    Reply,
    bad_request,
    not_found,
)
from arneb.http.management.requests.rules import ADMINISTRATOR, POLICYMAKER, USERS
from arneb.http.management.router import Route
from arneb.http.management.site import CLUSTER_NAME, Site
from arneb_amqp.shovels.settings import COMPONENT as SHOVEL
from arneb_amqp.shovels.settings import without_passwords
from arneb_core.access.edits import VHOST_LIMITS as VHOST_LIMIT_NAMES
from arneb_core.access.edits import Edit
from arneb_core.access.records import GlobalParameter, OperatorPolicy, Parameter, Vhost
from arneb_core.access.tables import Tables

KEPT: Final = (UPSTREAM, UPSTREAM_SET)
"""Components whose parameters are checked and stored, and have no effect."""

VHOST_LIMITS: Final = "vhost-limits"
LIMITS: Final = "limits"
OPERATOR_POLICY: Final = "operator_policy"


def all_parameters(tables: Tables) -> Iterator[Parameter]:
    """Yield every parameter, wherever it is kept."""
    yield from tables.rows(Parameter)
    for vhost in tables.rows(Vhost):
        if vhost.limits and not vhost.leaving:
            yield Parameter(vhost.name, VHOST_LIMITS, LIMITS, dict(vhost.limits))
    for policy in tables.rows(OperatorPolicy):
        value = policy_document(policy)
        del value["vhost"], value["name"]
        yield Parameter(policy.vhost, OPERATOR_POLICY, policy.name, value)


def parameter_document(row: Parameter) -> Document:
    """Return one parameter's document, without passwords."""
    return {
        "vhost": row.vhost,
        "component": row.component,
        "name": row.name,
        "value": without_passwords(row.value) if row.component == SHOVEL else row.value,
    }


def exported_parameter(row: Parameter) -> Document:
    """Return one parameter as an import needs it, with passwords."""
    return {**parameter_document(row), "value": row.value}


def put_parameter(edit: Edit, vhost: str, component: str, name: str, value: Any) -> None:
    """Store a parameter where its component keeps it. Raises 400."""
    if component == VHOST_LIMITS:
        edit.set_vhost_limits(vhost, limits_in(value))
    elif component == OPERATOR_POLICY:
        edit.set_policy(policy_in(OperatorPolicy, vhost, name, Body(_object(value))))
    elif component == SHOVEL:
        settings_in(value)
        edit.set_parameter(vhost, component, name, value)
    elif component in KEPT:
        edit.set_parameter(vhost, component, name, federation_in(component, name, value))
    else:
        raise invalid_policy(f"component {component} not found")


def limits_in(value: Any) -> dict[str, int]:
    """Return the vhost limits in a value, by name. Raises 400."""
    limits = _object(value)
    for name, each in limits.items():
        if name not in VHOST_LIMIT_NAMES:
            terms = f'{{<<"{name[:100]}">>,{str(each)[:100]}}}'
            raise invalid_policy(f"Unrecognised terms [{terms}] in limits")
        if type(each) is not int:
            raise invalid_policy(f"{name} should be a number, actually was {str(each)[:100]}")
    return limits


def _object(value: Any) -> dict[str, Any]:
    if value == []:
        return {}
    if not isinstance(value, dict):
        raise bad_request("expected an object as value")
    return value


async def _list(site: Site, call: Call) -> Reply:
    vhosts = {each.name for each in await site.vhosts_for(call)}
    component = call.params.get("component")
    rows = [
        each
        for each in all_parameters(site.catalogue.tables)
        if each.vhost in vhosts and component in (None, each.component)
    ]
    source = Source(rows, parameter_document, lambda each: (each.vhost, each.component, each.name))
    return Reply(await listed(source, listing_of(call.query, paged=False), site.pause))


def _found(site: Site, call: Call) -> Parameter:
    key = (call.params["vhost"], call.params["component"], call.params["name"])
    for each in all_parameters(site.catalogue.tables):
        if each.key == key:
            return each
    raise not_found()


async def _show(site: Site, call: Call) -> Reply:
    return Reply(parameter_document(_found(site, call)))


async def _put(site: Site, call: Call) -> Reply:
    body, vhost = call.document(), site.vhost_for_change(call).name
    body.expect("value")
    component, name = call.params["component"], call.params["name"]
    if component == SHOVEL:
        await check_shovel(site, call, vhost, body.given["value"])
    key = (vhost, component, name)
    existed = any(each.key == key for each in all_parameters(site.catalogue.tables))
    async with site.catalogue.changing() as edit:
        put_parameter(edit, vhost, component, name, body.given["value"])
    return DONE if existed else CREATED


async def _delete(site: Site, call: Call) -> Reply:
    found = _found(site, call)
    async with site.catalogue.changing() as edit:
        if found.component == VHOST_LIMITS:
            edit.set_vhost_limits(found.vhost, {})
        elif found.component == OPERATOR_POLICY:
            edit.clear_policy(OperatorPolicy, found.vhost, found.name)
        else:
            edit.clear_parameter(*found.key)
    return DONE


def all_global_parameters(site: Site) -> dict[str, Any]:
    """Return the node's parameters by name; the cluster's name is always among them."""
    rows = site.catalogue.tables.rows(GlobalParameter)
    return {CLUSTER_NAME: site.cluster_name} | {each.name: each.value for each in rows}


async def _list_global(site: Site, call: Call) -> Reply:
    found = all_global_parameters(site)
    return Reply([{"name": name, "value": found[name]} for name in sorted(found)])


async def _show_global(site: Site, call: Call) -> Reply:
    name, found = call.params["name"], all_global_parameters(site)
    if name not in found:
        raise not_found()
    return Reply({"name": name, "value": found[name]})


async def _put_global(site: Site, call: Call) -> Reply:
    body, name = call.document(), call.params["name"]
    body.expect("value")
    existed = name in all_global_parameters(site)
    async with site.catalogue.changing() as edit:
        edit.set_global_parameter(name, body.given["value"])
    return DONE if existed else CREATED


async def _delete_global(site: Site, call: Call) -> Reply:
    name = call.params["name"]
    if site.catalogue.get(GlobalParameter, name) is None:
        raise not_found()
    async with site.catalogue.changing() as edit:
        edit.clear_global_parameter(name)
    return DONE


async def _cluster_name(site: Site, call: Call) -> Reply:
    return Reply({"name": site.cluster_name})


async def _set_cluster_name(site: Site, call: Call) -> Reply:
    body = call.document()
    body.expect("name")
    async with site.catalogue.changing() as edit:
        edit.set_global_parameter(CLUSTER_NAME, body.text("name"))
    return DONE


ROUTES: Final = (
    Route("GET", "parameters", POLICYMAKER, _list),
    Route("GET", "parameters/:component", POLICYMAKER, _list),
    Route("GET", "parameters/:component/:vhost", POLICYMAKER, _list),
    Route("GET", "parameters/:component/:vhost/:name", POLICYMAKER, _show),
    Route("PUT", "parameters/:component/:vhost/:name", POLICYMAKER, _put),
    Route("DELETE", "parameters/:component/:vhost/:name", POLICYMAKER, _delete),
    Route("GET", "global-parameters", POLICYMAKER, _list_global),
    Route("GET", "global-parameters/:name", POLICYMAKER, _show_global),
    Route("PUT", "global-parameters/:name", POLICYMAKER, _put_global),
    Route("DELETE", "global-parameters/:name", POLICYMAKER, _delete_global),
    Route("GET", "cluster-name", USERS, _cluster_name),
    Route("PUT", "cluster-name", ADMINISTRATOR, _set_cluster_name),
)
