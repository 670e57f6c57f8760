"""Through the data API a user may do what it may do over AMQP, in that vhost and in no other."""

from pathlib import Path

import pytest
from starlette.requests import Request

from arneb.data.granted import Granted, GrantedRights
from arneb.data.rights import Everything
from arneb.http.access.guarded import PRINCIPAL
from arneb_amqp.config import AmqpConfig
from arneb_amqp.topology.seeding import open_catalogue
from arneb_core.access.internal import InternalVerdicts
from arneb_core.access.principals import Principal
from arneb_core.engine.engine import open_engine

HERE, THERE = "persistent://public/default/", "persistent://public/v/"


@pytest.mark.real_time
async def test_a_topic_is_a_queue_of_the_vhost_of_its_namespace(tmp_path: Path) -> None:
    async with open_engine(tmp_path / "data") as core:
        catalogue = await open_catalogue(core, AmqpConfig(vhosts=("/", "v")))
        async with catalogue.changing() as edit:
            edit.put_user("u")
            edit.set_permissions("u", "v", "", "^out|^amq\\.default|^t$", "^a/b$")
            edit.set_topic_permissions("u", "v", "t", "^k", "")
        verdicts = InternalVerdicts(catalogue.tables, "u")
        rights = Granted(Principal("u", verdicts), catalogue)
        assert rights.may_consume(THERE + "a%2Fb")
        assert not rights.may_consume(HERE + "a%2Fb")
        assert not rights.may_consume(THERE + "out")
        assert rights.may_produce(THERE + "out")
        assert not rights.may_produce(HERE + "out")
        assert rights.may_publish("v", "", "anything")
        assert not rights.may_publish("/", "", "anything")
        assert not rights.may_publish("v", "x", "k")
        assert rights.may_publish("v", "t", "k")
        assert not rights.may_publish("v", "t", "z")
        for nobodys in ("persistent://other/n/q", "non-persistent://public/v/out"):
            assert not rights.may_consume(nobodys)
            admin = Granted(Principal("u", verdicts, frozenset({"administrator"})), catalogue)
            assert admin.may_consume(nobodys)
        rights_of = GrantedRights(catalogue)
        scope = {"type": "http", "headers": []}
        assert isinstance(rights_of(Request(scope)), Everything)
        scope[PRINCIPAL] = Principal("u", verdicts)  # type: ignore[assignment]
        assert not rights_of(Request(scope)).may_consume(HERE + "q")
