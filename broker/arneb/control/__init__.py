"""The control socket: access to the node for the owner of the data directory.

The rule: the socket is open for as long as the process lives, whether or not its broker runs, and
needs no password.
"""
