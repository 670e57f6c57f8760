"""The runtime: what the broker needs of the interpreter and the operating system.

The rule: nothing here knows of messages.

``descriptors`` raises the limit of open files, ``garbage`` collects when nobody waits,
``service_manager`` reports to systemd, and ``ending`` makes sure that a stopping process ends.
"""
