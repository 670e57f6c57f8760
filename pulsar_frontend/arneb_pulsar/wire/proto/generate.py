"""Makes ``pulsar_pb2.py`` and its stub from ``pulsar.proto``, and checks that they are current.

Run ``python -m arneb_pulsar.wire.proto.generate`` after a change to the ``.proto`` file; with
``--check`` nothing is written and the exit status is 1 if the checked-in files are stale.

Only the parser of ``grpcio-tools`` (a development dependency) is used, not its Python writer:
that writer ties its output to the protobuf runtime of its own release, while the serialized
descriptor in our module loads in every runtime that we support, and both files come out the
same whichever release of the tools made them.
"""

import sys
import tempfile
from collections.abc import Iterator
from keyword import iskeyword
from pathlib import Path
from typing import Final

from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    EnumDescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
    FileDescriptorSet,
)

HERE: Final = Path(__file__).parent
PROTO: Final = HERE / "pulsar.proto"
MODULE: Final = HERE / "pulsar_pb2.py"
STUB: Final = HERE / "pulsar_pb2.pyi"
SOURCE_ROOT: Final = HERE.parents[2]

NOTICE: Final = (
    "# Made from pulsar.proto by `python -m arneb_pulsar.wire.proto.generate`; do not edit.\n"
)
BYTES_PER_LINE: Final = 22
PACKAGE: Final = ".arneb.pulsar."

SCALARS: Final = {
    FieldDescriptorProto.TYPE_DOUBLE: "float",
    FieldDescriptorProto.TYPE_INT64: "int",
    FieldDescriptorProto.TYPE_UINT64: "int",
    FieldDescriptorProto.TYPE_INT32: "int",
    FieldDescriptorProto.TYPE_UINT32: "int",
    FieldDescriptorProto.TYPE_BOOL: "bool",
    FieldDescriptorProto.TYPE_STRING: "str",
    FieldDescriptorProto.TYPE_BYTES: "bytes",
}


def main(arguments: list[str]) -> int:
    """Run the command; return its exit status."""
    file = parse()
    made = {MODULE: render_module(file), STUB: render_stub(file)}
    if arguments == ["--check"]:
        stale = [path.name for path, text in made.items() if _text_of(path) != text]
        if stale:
            print(f"stale: {', '.join(stale)}; run `python -m {_module_name(__file__)}`")
        return 1 if stale else 0
    if arguments:
        print(f"usage: python -m {_module_name(__file__)} [--check]")
        return 2
    for path, text in made.items():
        path.write_text(text)
    return 0


def parse() -> FileDescriptorProto:
    """Return the descriptor of ``pulsar.proto``, as protoc reads it.

    Raises :class:`SystemExit` when protoc is not installed or refuses the file.
    """
    try:
        from grpc_tools import protoc  # type: ignore[import-untyped]
    except ImportError:
        raise SystemExit("grpcio-tools is not installed: pip install grpcio-tools") from None
    with tempfile.TemporaryDirectory() as directory:
        target = Path(directory, "descriptors")
        relative = PROTO.relative_to(SOURCE_ROOT)
        arguments = ["protoc", f"-I{SOURCE_ROOT}", f"--descriptor_set_out={target}", str(relative)]
        if protoc.main(arguments) != 0:
            raise SystemExit(f"protoc refused {PROTO}")
        found = FileDescriptorSet.FromString(target.read_bytes())
    file = found.file[0]
    for message in file.message_type:
        for field in message.field:
            field.ClearField("json_name")
    return file


def render_module(file: FileDescriptorProto) -> str:
    """Return the text of ``pulsar_pb2.py``."""
    data = file.SerializeToString(deterministic=True)
    cuts = range(0, len(data), BYTES_PER_LINE)
    lines = "\n".join(f"    {data[at : at + BYTES_PER_LINE]!r}" for at in cuts)
    return (
        f'{NOTICE}"""The messages of pulsar.proto."""\n\n'
        "from google.protobuf import descriptor_pool as _descriptor_pool\n"
        "from google.protobuf.internal import builder as _builder\n\n"
        f"DESCRIPTOR = _descriptor_pool.Default().AddSerializedFile(\n{lines}\n)\n"
        "_builder.BuildMessageAndEnumDescriptors(DESCRIPTOR, globals())\n"
        "_builder.BuildTopDescriptorsAndMessages(\n"
        f'    DESCRIPTOR, "{_module_name(MODULE)}", globals()\n'
        ")\n"
    )


def render_stub(file: FileDescriptorProto) -> str:
    """Return the text of ``pulsar_pb2.pyi``: what type checkers see of the module."""
    lines = [
        NOTICE,
        "from collections.abc import Iterable, Mapping",
        "from typing import Any, ClassVar\n",
        "from google.protobuf.descriptor import FileDescriptor",
        "from google.protobuf.internal.containers import (",
        "    RepeatedCompositeFieldContainer,",
        "    RepeatedScalarFieldContainer,",
        ")",
        "from google.protobuf.internal.enum_type_wrapper import EnumTypeWrapper",
        "from google.protobuf.message import Message\n",
        "DESCRIPTOR: FileDescriptor",
    ]
    for enum in file.enum_type:
        lines += _enum_lines(enum, "", enum.name)
    names = _python_names(file)
    lines += [f"\n{alias} = {name}" for name, alias in names.items() if alias != name]
    for message in file.message_type:
        lines += _message_lines(message, names)
    return "\n".join(lines) + "\n"


def _python_names(file: FileDescriptorProto) -> dict[str, str]:
    """Return how to write each type in the stub.

    Inside a class, a constant of a nested enum hides the message of the same name.
    """
    constants = {
        value.name
        for message in file.message_type
        for enum in message.enum_type
        for value in enum.value
    }
    names = {message.name: message.name for message in file.message_type}
    names |= {name: f"_{name}" for name in constants & names.keys()}
    names |= {enum.name: enum.name for enum in file.enum_type}
    for message in file.message_type:
        for enum in message.enum_type:
            name = f"{message.name}.{enum.name}"
            names[name] = name
    return {name: names[name] for name in sorted(names)}


def _enum_lines(enum: EnumDescriptorProto, indent: str, name: str) -> Iterator[str]:
    """Yield the class of an enum and the constants beside it."""
    yield f"\n{indent}class {enum.name}(int, metaclass=EnumTypeWrapper):"
    names = [value.name for value in enum.value if not iskeyword(value.name)]
    for value in names:
        yield f"{indent}    {value}: ClassVar[{name}]"
    kind = f"ClassVar[{name}]" if indent else name
    for value in names:
        yield f"{indent}{value}: {kind}"


def _message_lines(message: DescriptorProto, names: dict[str, str]) -> Iterator[str]:
    """Yield the class of a message: nested enums, fields, constructor."""
    assert not message.nested_type, "the protocol nests enums only"
    yield f"\nclass {message.name}(Message):"
    for enum in message.enum_type:
        yield from _enum_lines(enum, "    ", f"{message.name}.{enum.name}")
    arguments = []
    for field in message.field:
        read, given = _types_of(field, names)
        if field.type != field.TYPE_MESSAGE and field.label != field.LABEL_REPEATED:
            yield f"    {field.name}: {read}"
        else:
            yield "    @property"
            yield f"    def {field.name}(self) -> {read}: ..."
        arguments.append(f"        {field.name}: {given} | None = ...,")
    yield "    def __init__("
    yield "        self,"
    if arguments:
        yield "        *,"
        yield from arguments
    yield "    ) -> None: ..."


def _types_of(field: FieldDescriptorProto, names: dict[str, str]) -> tuple[str, str]:
    """Return what reading a field gives, and what the constructor takes for it."""
    repeated = field.label == field.LABEL_REPEATED
    if field.type == field.TYPE_MESSAGE:
        name = names[field.type_name.removeprefix(PACKAGE)]
        if repeated:
            given = f"Iterable[{name} | Mapping[str, Any]]"
            return f"RepeatedCompositeFieldContainer[{name}]", given
        return name, f"{name} | Mapping[str, Any]"
    if field.type == field.TYPE_ENUM:
        name = names[field.type_name.removeprefix(PACKAGE)]
        return name, f"{name} | int | str"
    name = SCALARS[field.type]
    if repeated:
        return f"RepeatedScalarFieldContainer[{name}]", f"Iterable[{name}]"
    return name, name


def _text_of(path: Path) -> str:
    return path.read_text() if path.exists() else ""


def _module_name(path: str | Path) -> str:
    return ".".join(Path(path).relative_to(SOURCE_ROOT).with_suffix("").parts)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
