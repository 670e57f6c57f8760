"""Arguments of declarations: checks of single ones, and whether two declarations agree.

The rule: an argument keeps its wire type, because a later declaration is compared with it, and
faults are reported in RabbitMQ's words. The tables of arguments are kept by the modules that act on
them.

Source: ``rabbit_amqqueue:assert_args_equivalence`` and ``check_declare_arguments``, RabbitMQ 3.13.
"""

from collections.abc import Callable, Iterable, Mapping

from arneb_amqp.errors import precondition_failed
from arneb_amqp.wire.erlang import render_string, render_value
from arneb_amqp.wire.tables import Field, FieldType, Table

Check = Callable[[Field, Table], str | None]
"""Checks one argument, given all of them; returns the fault as an Erlang term in RabbitMQ's words,
or None."""


def check_arguments(
    arguments: Table, owner: str, names: Iterable[str], checks: Mapping[str, Check]
) -> None:
    """Raise RabbitMQ's 406 for the first invalid argument in ``names``; ``owner`` as in error
    texts."""
    for name in names:
        field = arguments.get(name)
        fault = None if field is None else checks[name](field, arguments)
        if fault is not None:
            raise precondition_failed(f"invalid arg '{name}' for {owner}: {fault}")


def check_exchange_name_argument(arguments: Table, name: str, owner: str) -> None:
    """Raise 406 unless an argument that names an exchange is absent or a string."""
    field = arguments.get(name)
    if field is not None and field.type is not FieldType.LONGSTR:
        kind = field.type.erlang_name
        raise precondition_failed(f"invalid type '{kind}' for arg '{name}' in {owner}")


def assert_equivalent(
    current: Table, received: Table, name: str, resource: str, default: str | None = None
) -> None:
    """Raise RabbitMQ's 406 unless both tables agree on argument ``name``; absence means
    ``default``."""
    old, new = current.get(name), received.get(name)
    if old is not None and new is not None:
        same_class = old.type is new.type or (old.is_integer and new.is_integer)
        if not (same_class and old.value == new.value):
            raise inequivalent(name, resource, _quoted(new), _quoted(old))
    elif old is not new and not _says(old or new, default):
        raise inequivalent(name, resource, _in_words(new), _in_words(old))


def inequivalent(name: str, resource: str, received: str, current: str) -> Exception:
    """Return the error for a declaration that disagrees with the existing one."""
    return precondition_failed(
        f"inequivalent arg '{name}' for {resource}: received {received} but current is {current}"
    )


def _says(field: Field | None, text: str | None) -> bool:
    return field is not None and text is not None and field.value == text.encode()


def _quoted(field: Field) -> str:
    # RabbitMQ shows a value of nothing as if there was none.
    return "none" if field.value is None else f"'{_shown(field)}'"


def _in_words(field: Field | None) -> str:
    if field is None:
        return "none"
    return f"the value '{_shown(field)}' of type '{field.type.erlang_name}'"


def _shown(field: Field) -> str:
    return field.text if isinstance(field.value, bytes) else render_value(field.value)


# Checks of one argument.


def integer(field: Field, _: Table) -> str | None:
    return None if field.is_integer else f'"expected integer, got {field.type.erlang_name}"'


def whole(field: Field) -> int:
    assert isinstance(field.value, int)
    return field.value


def not_negative(field: Field, arguments: Table) -> str | None:
    fault = integer(field, arguments)
    if fault is None and whole(field) < 0:
        return f"{{value_negative,{whole(field)}}}"
    return fault


def positive(field: Field, arguments: Table) -> str | None:
    fault = not_negative(field, arguments)
    return "{value_zero,0}" if fault is None and not whole(field) else fault


def boolean(field: Field, _: Table) -> str | None:
    return None if field.type is FieldType.BOOL else _unacceptable(field)


def string(field: Field, _: Table) -> str | None:
    return None if field.type is FieldType.LONGSTR else _unacceptable(field)


def one_of(*allowed: str, otherwise: str = "", unsupported: str = "") -> Check:
    """Return a check whose fault is the atom ``otherwise``, or says what is ``unsupported``."""

    def check(field: Field, arguments: Table) -> str | None:
        fault = string(field, arguments)
        if fault is None and field.text not in allowed:
            return otherwise or render_string(f"unsupported {unsupported} '{field.text}'")
        return fault

    return check


def _unacceptable(field: Field) -> str:
    return f"{{unacceptable_type,{field.type.erlang_name}}}"
