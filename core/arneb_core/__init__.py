"""The shared log and its cursors: Arneb's core, which knows no protocol and no socket.

Frontends use :mod:`arneb_core.api` and get an implementation of it from
:func:`arneb_core.engine.engine.open_engine`.
"""
