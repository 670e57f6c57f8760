"""Access over HTTP: vhosts, users and permissions.

The rule: each is put whole, and is in the access catalogue before the reply.
"""
