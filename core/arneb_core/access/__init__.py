"""Access: who there is, and who may do what in which vhost, for all frontends of a node.

The rule: it imports the core's border and nothing behind it, and frontends import it beside that
border. Whoever asks it may rely on what it says being on disk; a crash takes nothing of it back.
What is asked for each message (:mod:`.rights`) is pure; what changes it (:mod:`.edits`) is one
commit, all of it or nothing (:mod:`.catalogue`).
"""
