"""Typed values: how the option ``valueAs`` converts bodies and payloads."""
