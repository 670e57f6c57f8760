"""Logs: what the broker writes for its operators.

The rule: text from outside is written so that every character is visible, and a password is never
written.

``log_lines`` writes to standard error or a file, ``audit_log`` records who changed what;
``shard_label`` names the shard that a line is about, and ``visible`` makes names safe to print.
"""
