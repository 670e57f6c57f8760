"""Definitions: everything declared and set, exported and imported as one file.

The rule: a file is read and checked whole (``file``) before anything is created (``importing``);
``definitions`` has the routes.
"""
