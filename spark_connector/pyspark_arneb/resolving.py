"""The form of the values of a read, looked up once on the driver."""

from dataclasses import replace

from pyspark_arneb.log.topics import short_name, without_partition
from pyspark_arneb.option_table import OptionError
from pyspark_arneb.options import ReadOptions, ValueAs
from pyspark_arneb.plan.planning import selected_topics
from pyspark_arneb.values.ddl import struct_type
from pyspark_arneb.values.forms import JsonForm, TextForm, ValueForm, form_of
from pyspark_arneb.values.registry import living_schemas


def resolved(options: ReadOptions) -> ReadOptions:
    """Return the options with the form of their values.

    Raises :class:`OptionError` when a topic has no schema or one that cannot be read here, or when
    topics have different schemas.
    """
    match options.value_as:
        case ValueAs.BINARY:
            return options
        case ValueAs.STRING:
            form: ValueForm = TextForm()
        case ValueAs.JSON:
            try:
                form = JsonForm(struct_type(options.value_schema))
            except ValueError as problem:
                raise OptionError("valueSchema", str(problem)) from None
        case ValueAs.SCHEMA:
            form = _by_schema(options)
    return replace(options, value_form=form)


def _by_schema(options: ReadOptions) -> ValueForm:
    source = options.location.open()
    found: dict[str, ValueForm] = {}
    for topic in dict.fromkeys(map(without_partition, selected_topics(source, options.topics))):
        try:
            found[topic] = form_of(living_schemas(source.schemas(topic)))
        except ValueError as problem:
            raise OptionError("valueAs", f"topic {short_name(topic)}: {problem}") from None
    if not found:
        raise OptionError("valueAs", "expected a topic with a schema, got no topic")
    first, *others = found.items()
    for topic, form in others:
        if form != first[1]:
            raise OptionError(
                "valueAs",
                f"topics {short_name(first[0])} and {short_name(topic)} have different schemas: "
                "read them one by one",
            )
    return first[1]
