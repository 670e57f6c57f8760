"""Metrics over HTTP: pages for Prometheus with Arneb's own names and RabbitMQ's."""
