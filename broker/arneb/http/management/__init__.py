"""RabbitMQ's management API: one module a noun, over what the broker knows at that instant.

The rule: handlers take a call and give a reply; they know no socket, and every route says who may
use it. Paths are split before they are decoded, so a name may hold anything.
"""
