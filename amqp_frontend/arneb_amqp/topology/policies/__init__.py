"""Policies: what operators say of queues and exchanges by their names, whoever declared them."""
