"""The generated module is current, and stands beside Pulsar's own without a clash."""

import pytest

from arneb_pulsar.wire.proto import generate, pulsar_pb2


def test_the_module_is_what_the_proto_file_says() -> None:
    pytest.importorskip("grpc_tools", reason="the generator is a development dependency")
    assert generate.main(["--check"]) == 0


def test_the_package_is_not_that_of_pulsars_clients() -> None:
    assert pulsar_pb2.DESCRIPTOR.package == "arneb.pulsar"


def test_a_wrong_argument_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("grpc_tools", reason="the generator is a development dependency")
    assert generate.main(["--what"]) == 2
    assert "usage" in capsys.readouterr().out
