"""Arneb's own protobuf file of the Pulsar protocol, and the module made from it."""
