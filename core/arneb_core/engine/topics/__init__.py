"""Topics as frontends see them: a log and the subscriptions over it.

The rule: a topic asks for commits and makes none.
"""
