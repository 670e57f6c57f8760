"""Schemas, as a client asks for them: GET_SCHEMA and GET_OR_CREATE_SCHEMA."""

from arneb_pulsar.schemas.schema import Schema, SchemaType, from_wire, to_wire, version_number
from arneb_pulsar.session.errors import RequestRefused
from arneb_pulsar.session.fields import properties_of, topic_of
from arneb_pulsar.session.interface.effects import AttachSchema, FindSchema
from arneb_pulsar.session.interface.events import SchemaAttached, SchemaFound
from arneb_pulsar.session.output import Output
from arneb_pulsar.wire import commands
from arneb_pulsar.wire.proto import pulsar_pb2 as pb


def schema_of(message: pb.Schema) -> Schema:
    """Return the schema that a command brings."""
    return from_wire(message, properties_of(message.properties))


class SchemaRequests:
    """Answers what a client asks about schemas. Errors come in the type of the answer."""

    def __init__(self, output: Output) -> None:
        self._output = output

    def __repr__(self) -> str:
        return f"<SchemaRequests over {self._output!r}>"

    def get(self, command: pb.CommandGetSchema) -> None:
        """GET_SCHEMA."""
        try:
            topic = topic_of(command.topic)
            number = None
            if command.HasField("schema_version"):
                if not command.schema_version:
                    raise RequestRefused(pb.IncompatibleSchema, "Empty schema version")
                number = _number_of(command.schema_version)
        except RequestRefused as refused:
            failure = refused.failure
            reply = commands.schema_failed(command.request_id, failure.code, failure.text)
            self._output.send(reply)
            return
        self._output.do(FindSchema(command.request_id, topic, number))

    def found(self, event: SchemaFound) -> None:
        """Send the schema, or that there is none."""
        version, request_id = event.version, event.request_id
        if version is None or version.schema is None:
            text = "Topic not found or no-schema"
            self._output.send(commands.schema_failed(request_id, pb.TopicNotFound, text))
            return
        topic = event.topic.base
        schema = to_wire(version.schema, f"{topic.namespace}/{topic.local}")
        self._output.send(commands.schema_found(request_id, schema, version.bytes))

    def get_or_create(self, command: pb.CommandGetOrCreateSchema) -> None:
        """GET_OR_CREATE_SCHEMA."""
        try:
            topic = topic_of(command.topic)
        except RequestRefused as refused:
            failure = refused.failure
            self._output.send(
                commands.schema_not_attached(command.request_id, failure.code, failure.text)
            )
            return
        schema = schema_of(command.schema)
        brought = None if schema.type is SchemaType.NONE else schema
        self._output.do(AttachSchema(command.request_id, topic, brought))

    def attached(self, event: SchemaAttached) -> None:
        """Send the schema's version, or why it has none."""
        failure, request_id = event.failure, event.request_id
        if failure is None:
            self._output.send(commands.schema_attached(request_id, event.version))
        else:
            reply = commands.schema_not_attached(request_id, failure.code, failure.text)
            self._output.send(reply)


def _number_of(data: bytes) -> int:
    try:
        return version_number(data)
    except ValueError as error:
        raise RequestRefused(pb.IncompatibleSchema, str(error)) from error
