"""Logs: what the broker writes for whoever operates it.

The rule: what came from outside is written so that every character of it can be seen, and a
password never.

``log_lines`` is standard error or a file, ``audit_log`` who changed what; ``shard_label`` says
which shard a line is about, and ``visible`` makes names safe to print.
"""
