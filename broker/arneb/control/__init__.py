"""The control socket: a way in for whoever may write to the data directory.

The rule: it is open for as long as the process lives, whether or not the broker in it runs, and
whoever may open it needs no password.
"""
