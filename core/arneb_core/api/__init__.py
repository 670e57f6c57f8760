"""The core's API: what frontends may ask of it, and the values and helpers they share.

:mod:`.core`, :mod:`.topics` and :mod:`.subscriptions` are the interface, statistics included; the
other folders are values and helpers that core and frontends share.

The rule: frontends import only this folder of the core (and :mod:`arneb_core.access`), and it
imports nothing of the core from outside itself. The core runs in the process of its frontends, and
these objects are passed between them by reference:

* a :class:`.Window` is shared: the frontend sets ``limit`` (and then wakes the consumers), the core
  counts ``in_flight``, and both read both at any time;
* the lists of :class:`.Deliveries` are shared with other consumers, and must not be changed;
* a :class:`.Unit` belongs to the core from the moment it is committed;
* counts (``ready_messages``, ``in_flight``, ``permits``, ``room``) are those of this instant, and
  ``subscriptions``, ``topics`` and ``metadata`` are views that must not be kept across an await;
* :meth:`.Consumer.pull` takes a message at once if one is in memory.

Everything else is an immutable value.
"""
