"""Definitions: all that was declared and set, as one file, out and in.

The rule: a file is understood whole (``file``) before anything is made (``importing``);
``definitions`` has the routes.
"""
