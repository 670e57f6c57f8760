"""The composition root: configuration, command line, HTTP, metrics, and one nursery.

The rule: this is the only package that knows both frontends; it wires them to the core
and holds no messaging logic of its own.
"""

__version__ = "0.1.0"
