"""Policies: operators' settings for queues and exchanges, applied by name."""
