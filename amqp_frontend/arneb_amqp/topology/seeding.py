"""Seeding: the access catalogue, initialised from this frontend's settings and the store."""

from dataclasses import replace

from arneb_amqp.config import AmqpConfig
from arneb_amqp.topology.records import PREFIX, vhosts_in
from arneb_core.access.belonging import EVERYTHING, Belonging
from arneb_core.access.catalogue import Catalogue
from arneb_core.access.seed import Seed
from arneb_core.api.core import Core


async def open_catalogue(
    core: Core, config: AmqpConfig, seed: Seed | None = None, belonging: Belonging = EVERYTHING
) -> Catalogue:
    """Open the access catalogue in the store of ``core``. At the very first start it holds what the
    settings say, or ``seed`` in their place; vhosts with earlier declarations are kept even if
    those do not name them. ``belonging``: what can be here.

    Raises as :meth:`.Catalogue.open`.
    """
    found = tuple(dict.fromkeys(vhosts_in(core.metadata(PREFIX).values())))
    return await Catalogue.open(
        core,
        replace(config.seed if seed is None else seed, found=found),
        vhosts_max=config.vhosts_max,
        defaults=config.vhost_defaults,
        belonging=belonging,
    )
