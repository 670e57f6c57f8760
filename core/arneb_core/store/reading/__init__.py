"""Reading: the whole store as of one commit, from any thread or process.

The rule: no table is written to, and no reader waits for a writer.

Read in this order: ``snapshot``, ``snapshot_environment`` (of a store that another process writes),
``leftovers`` (blocks in no log), ``stored_blocks`` and ``extents`` (logs for readers that decode
later), ``exported_blocks`` (for readers in other processes), ``frontend_rows`` (frontends' data),
``child_process`` (reading in a process of its own).
"""
