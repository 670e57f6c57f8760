"""Who there is and what they may do, over HTTP: vhosts, users and permissions.

The rule: each is put whole, and is in the access catalogue before it is answered.
"""
