"""Authorization: what a role may do, by Pulsar's rules.

The rule: pure. What is stored is read anew for every question, so a change holds from the moment
at which it is made. Sources: ``PulsarAuthorizationProvider`` and ``AuthorizationService`` of Apache
Pulsar 4.0.7.
"""
