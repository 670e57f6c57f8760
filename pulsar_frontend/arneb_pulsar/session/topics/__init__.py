"""Topics, as a client asks about them: where they are, which there are, and which come and go.

The rule: each answer, a failure included, has the response type of its request.

Read in this order: ``lookup``, ``watchers``, ``watched_names``.
"""
