"""The bytes of the Pulsar binary protocol. Pure: no I/O, no clock, no state but buffers."""
