"""Access: which users there are, and what each may do in which vhost, for all frontends of a node.

The rule: of the core it imports the API only, and frontends import it directly. Whatever it has
answered is on disk, so a crash takes nothing back. Checks made for each message
(:mod:`.rights`) are pure; a change (:mod:`.edits`) is one commit, all of it or nothing
(:mod:`.catalogue`).
"""
