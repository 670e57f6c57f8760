"""The runtime: what the broker needs of the interpreter and the operating system.

The rule: nothing of messages is known here.

``descriptors`` are raised at the start, ``garbage`` is collected when nobody waits,
``service_manager`` tells systemd, and ``ending`` sees that a process that is to end does.
"""
