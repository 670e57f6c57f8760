"""Schemas: values of an application as bytes, and what a topic is told about them."""
