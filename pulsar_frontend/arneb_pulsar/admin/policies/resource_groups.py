"""Resource groups: created, changed, shown and removed, and assigned to namespaces.

The rule: a group that a namespace uses cannot be removed.
"""

from dataclasses import replace
from typing import Final

from arneb_pulsar.admin.calls.requests import (
    DONE,
    AdminError,
    AdminReply,
    AdminRequest,
    document,
    text,
)
from arneb_pulsar.admin.calls.router import Route
from arneb_pulsar.admin.calls.rules import SUPER_USER, on_policy
from arneb_pulsar.admin.namespaces.namespaces import PATH, namespace_of
from arneb_pulsar.names import ENTITY
from arneb_pulsar.services.context import BrokerContext

UNKNOWN: Final = "ResourceGroup does not exist"


async def list_all(context: BrokerContext, request: AdminRequest) -> AdminReply:
    return document(sorted(context.resource_groups.all))


async def find(context: BrokerContext, request: AdminRequest) -> AdminReply:
    group = context.resource_groups.all.get(request.names["group"])
    if group is None:
        raise AdminError(404, UNKNOWN)
    return document(group.document)


async def put(context: BrokerContext, request: AdminRequest) -> AdminReply:
    """Create a group or change its fields."""
    name = request.names["group"]
    if not ENTITY.fullmatch(name):
        raise AdminError(412, f"ResourceGroup name {name} is not valid")
    try:
        await context.resource_groups.put(name, request.given())
    except ValueError as error:
        raise AdminError(400, str(error)) from error
    return DONE


async def drop(context: BrokerContext, request: AdminRequest) -> AdminReply:
    name = request.names["group"]
    if name not in context.resource_groups.all:
        raise AdminError(404, UNKNOWN)
    registry = context.namespaces
    for tenant in registry.tenants:
        for namespace in registry.namespaces(tenant):
            if registry.namespace_policies(namespace).resource_group == name:
                raise AdminError(412, "ResourceGroup is in use")
    await context.resource_groups.drop(name)
    return DONE


# Of a namespace


async def get_name(context: BrokerContext, request: AdminRequest) -> AdminReply:
    found = context.namespaces.namespace_policies(namespace_of(context, request)).resource_group
    return AdminReply(200) if found is None else text(found)


async def set_name(context: BrokerContext, request: AdminRequest) -> AdminReply:
    namespace, name = namespace_of(context, request), request.names["group"]
    if name not in context.resource_groups.all:
        raise AdminError(412, UNKNOWN)
    await context.namespaces.change_namespace(
        namespace, lambda own: replace(own, resource_group=name)
    )
    return DONE


async def drop_name(context: BrokerContext, request: AdminRequest) -> AdminReply:
    namespace = namespace_of(context, request)
    await context.namespaces.change_namespace(
        namespace, lambda own: replace(own, resource_group=None)
    )
    return DONE


_ROOT: Final = "/admin/v2/resourcegroups"
_OF_NAMESPACE: Final = PATH + "/resourcegroup"
_READ: Final = on_policy("RESOURCEGROUP", writes=False, of_topic=False)
_WRITE: Final = on_policy("RESOURCEGROUP", writes=True, of_topic=False)

ROUTES: Final[list[Route]] = [
    Route("GET", _ROOT, SUPER_USER, list_all),
    Route("GET", _ROOT + "/{group}", SUPER_USER, find),
    Route("PUT", _ROOT + "/{group}", SUPER_USER, put),
    Route("DELETE", _ROOT + "/{group}", SUPER_USER, drop),
    Route("GET", _OF_NAMESPACE, _READ, get_name),
    Route("POST", _OF_NAMESPACE + "/{group}", _WRITE, set_name),
    Route("DELETE", _OF_NAMESPACE, _WRITE, drop_name),
]
