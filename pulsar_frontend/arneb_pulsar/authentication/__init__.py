"""Authentication: who a client is, proved by a token, a password or a certificate.

The rule: all of it is pure but :mod:`arneb_pulsar.authentication.files`, which reads keys once,
when the settings are checked. Nobody hears why a proof was refused; only the log does.
"""
