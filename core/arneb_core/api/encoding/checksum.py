"""CRC-32C: the checksum of blocks, records and Pulsar's frames, shared by all folders.

The rule: only the extension of the package ``crc32c`` is loaded. The package itself has a command
line and asks :mod:`importlib.metadata` for its version, which loads :mod:`argparse`, :mod:`zipfile`
and :mod:`email` into every broker: 2.3 MiB of it.
"""

import sys
from importlib.machinery import PathFinder
from importlib.util import find_spec, module_from_spec
from typing import TYPE_CHECKING, Final

__all__ = ["crc32c"]

EXTENSION: Final = "crc32c._crc32c"

if TYPE_CHECKING:
    from crc32c import crc32c
else:

    def _extension():
        """Load it under its own name, so that importing the package finds the same module."""
        if (known := sys.modules.get(EXTENSION)) is not None:
            return known
        package = find_spec("crc32c")  # found, not imported
        if package is None:
            raise ModuleNotFoundError("expected the package crc32c to be installed", name="crc32c")
        spec = PathFinder.find_spec(EXTENSION, package.submodule_search_locations)
        if spec is None:  # a release that is laid out differently
            import crc32c as whole

            return whole
        module = module_from_spec(spec)
        sys.modules[EXTENSION] = module
        spec.loader.exec_module(module)
        return module

    crc32c = _extension().crc32c
