"""Names and routing keys over HTTP that are too long for AMQP: refused, by a reason."""

from pathlib import Path
from typing import Any

import pytest
from tests.broker.http.management.kit import managed

V = "v%2Fm"
FITS = "ä" * 127 + "x"
TOO_LONG = FITS + "x"


@pytest.mark.parametrize(
    ("path", "body"),
    [("queues", {}), ("exchanges", {"type": "direct"})],
    ids=str,
)
async def test_no_queue_or_exchange_has_a_name_that_no_client_could_use(
    tmp_path: Path, path: str, body: dict[str, Any]
) -> None:
    async with managed(tmp_path) as call:
        answered = await call("PUT", f"{path}/{V}/{TOO_LONG}", body)
        assert answered.status == 400
        assert "should be less than 255 bytes, actually was 256" in answered.json["reason"]
        imported = {path: [{"name": TOO_LONG, **body}]}
        answered = await call("POST", f"definitions/{V}", imported)
        assert answered.status == 400
        assert "should be less than 255 bytes" in answered.json["reason"]
        assert (await call("GET", f"{path}/{V}/{TOO_LONG}")).status == 404
        assert (await call("PUT", f"{path}/{V}/{FITS}", body)).status == 201


async def test_a_message_whose_routing_key_is_too_long_is_refused(tmp_path: Path) -> None:
    async with managed(tmp_path) as call:
        body = {"properties": {}, "payload": "p", "payload_encoding": "string"}
        publish = f"exchanges/{V}/amq.topic/publish"
        answered = await call("POST", publish, {**body, "routing_key": TOO_LONG})
        assert answered.status == 400
        assert "routing key should be less than 255 bytes" in answered.json["reason"]
        answered = await call("POST", publish, {**body, "routing_key": FITS})
        assert answered.json == {"routed": False}
