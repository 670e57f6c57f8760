"""What the core offers its frontends, and what everybody needs who uses it.

:mod:`.core`, :mod:`.topics`, :mod:`.subscriptions` and :mod:`.consumers` are what a frontend may
ask; :mod:`.admin` and :mod:`.statistics` what may be looked at; the other modules are values and
helpers that core and frontends share.

The rule: frontends import this folder of the core and no other, and it imports nothing of the core
that is not in it. The core runs in the process of its frontends, and these objects cross the border
by reference:

* a :class:`.Window` is shared: the frontend sets ``limit`` (and then wakes the consumers), the core
  counts ``in_flight``, and both read both at any time;
* the lists of :class:`.Deliveries` are shared with other consumers, and nobody changes them;
* a :class:`.Unit` is the core's from the moment on at which it is committed;
* counts (``ready_messages``, ``in_flight``, ``permits``, ``room``) are those of this instant, and
  ``subscriptions``, ``topics`` and ``metadata`` views that are not to be kept while awaiting;
* :meth:`.Consumer.pull` takes a message at once if one is in memory.

Everything else is a value that never changes again.
"""
