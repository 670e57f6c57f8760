"""Topics, as a client asks about them: where they are, which there are, and which come and go.

The rule: each answer is of the response type of its request, a failure too.

Read in this order: ``lookup``, ``watchers``, ``watched_names``.
"""
