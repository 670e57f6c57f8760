"""Shovels over HTTP: shown, deleted and restarted.

The rule: shovels are stored as parameters; no answer shows a password.
"""

from typing import Final

from arneb.http.management.lists.lists import Source, listed, listing_of
from arneb.http.management.requests.calls import DONE, Call, Document, Reply, bad_request, not_found
from arneb.http.management.requests.rules import MONITORING, POLICYMAKER, has_access
from arneb.http.management.router import Route
from arneb.http.management.site import Site
from arneb_amqp.shovels.settings import COMPONENT, InvalidShovel, ShovelSettings, shovel_in
from arneb_amqp.shovels.shovel import ShovelStatus
from arneb_core.access.records import Parameter


def shovel_document(site: Site, status: ShovelStatus) -> Document:
    """Return one shovel's document."""
    return {
        "node": site.node,
        "timestamp": status.since,
        "name": status.name,
        "vhost": status.vhost,
        "type": "dynamic",
        "state": status.state.value,
        **status.details,
    }


def settings_in(value: object) -> ShovelSettings:
    """Return the settings in a shovel parameter's value. Raises 400."""
    if not isinstance(value, dict):
        raise bad_request("Validation failed\n\nexpected an object as value\n")
    try:
        return shovel_in(value)
    except InvalidShovel as error:
        raise bad_request(f"Validation failed\n\n{error}\n") from None


async def check_shovel(site: Site, call: Call, vhost: str, value: object) -> None:
    """Raise 400 for invalid settings, and for local vhosts that the caller may not access or that
    this broker does not serve."""
    settings = settings_in(value)
    for each in sorted({name or vhost for name in settings.local_vhosts}):
        if why := site.catalogue.misplaced(each):
            text = f"vhost '{each}': {why}; give it a URI with a host, amqp://HOST/{each}"
            raise bad_request(f"Validation failed\n\n{text}\n")
        if not await has_access(call, each):
            text = f'user "{call.caller.name}" may not connect to vhost "{each}"'
            raise bad_request(f"Validation failed\n\n{text}\n")


async def _list(site: Site, call: Call) -> Reply:
    vhosts = {each.name for each in await site.vhosts_for(call)}
    rows = [each for each in site.shovels.statuses if each.vhost in vhosts]
    source = Source(
        rows, lambda each: shovel_document(site, each), lambda each: (each.vhost, each.name)
    )
    return Reply(await listed(source, listing_of(call.query, paged=False), site.pause))


def _found(site: Site, call: Call) -> ShovelStatus:
    vhost, name = call.params["vhost"], call.params["name"]
    for each in site.shovels.statuses:
        if (each.vhost, each.name) == (vhost, name):
            return each
    raise not_found()


async def _show(site: Site, call: Call) -> Reply:
    return Reply(shovel_document(site, _found(site, call)))


async def _delete(site: Site, call: Call) -> Reply:
    vhost, name = site.vhost_of(call).name, call.params["name"]
    if site.catalogue.get(Parameter, vhost, COMPONENT, name) is None:
        raise not_found()
    async with site.catalogue.changing() as edit:
        edit.clear_parameter(vhost, COMPONENT, name)
    return DONE


async def _restart(site: Site, call: Call) -> Reply:
    if not site.shovels.restart(site.vhost_of(call).name, call.params["name"]):
        raise not_found()
    return DONE


ROUTES: Final = (
    Route("GET", "shovels", MONITORING, _list),
    Route("GET", "shovels/:vhost", MONITORING, _list),
    Route("GET", "shovels/vhost/:vhost/:name", MONITORING, _show),
    Route("DELETE", "shovels/vhost/:vhost/:name", POLICYMAKER, _delete),
    Route("DELETE", "shovels/vhost/:vhost/:name/restart", POLICYMAKER, _restart),
)
