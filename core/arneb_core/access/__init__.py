"""Access: which users there are, and what each may do in which vhost, for all frontends of a node.

The rule: it imports the core's border and nothing behind it; frontends import it beside that
border. Its answers are on disk: a crash takes none of them back. Checks made for each message
(:mod:`.rights`) are pure; a change (:mod:`.edits`) is one commit, all of it or nothing
(:mod:`.catalogue`).
"""
