"""Authentication: who a client is, proved by a token, a password or a certificate.

The rule: everything except :mod:`arneb_pulsar.authentication.files` is pure; that module reads keys
once, when the settings are checked. Only the log says why a proof was refused.
"""
