"""Policies: operators' settings for queues and exchanges by name, whoever declared them."""
