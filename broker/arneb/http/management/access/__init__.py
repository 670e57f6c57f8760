"""Access over HTTP: vhosts, users and permissions.

The rule: each is replaced as a whole, and is in the access catalogue before the reply.
"""
