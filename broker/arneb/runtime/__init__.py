"""The runtime: what the broker needs of the interpreter and the operating system.

The rule: nothing here knows of messages.

``descriptors`` raises their limit at the start, ``garbage`` collects when nobody waits,
``service_manager`` reports to systemd, and ``ending`` makes sure that a stopping process ends.
"""
