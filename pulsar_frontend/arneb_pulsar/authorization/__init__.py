"""Authorization: what a role may do, by Pulsar's rules.

The rule: pure. Stored permissions are read again for every question, so a change takes effect at
once. Sources: ``PulsarAuthorizationProvider`` and ``AuthorizationService`` of Apache Pulsar 4.0.7.
"""
