"""Refusals: what a request that failed is answered with, whatever refused it."""

from arneb_core.api.errors import CoreError
from arneb_pulsar.schemas.compatibility import IncompatibleSchema
from arneb_pulsar.session.errors import Failure, Refused, failure_of
from arneb_pulsar.wire.proto import pulsar_pb2 as pb


def refusal_of(error: CoreError | Refused | IncompatibleSchema) -> Failure:
    """``error`` as the peer is told."""
    if isinstance(error, IncompatibleSchema):
        return Failure(pb.IncompatibleSchema, str(error))
    return error.failure if isinstance(error, Refused) else failure_of(error)
