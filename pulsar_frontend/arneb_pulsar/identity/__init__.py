"""Identity: who a client is, proved by a token, a password or a certificate.

The rule: what is asked here is pure but for :mod:`arneb_pulsar.identity.files`, which reads keys
once, when the settings are checked. Nobody hears why a proof was refused; only the log does.
"""
