"""Access to an HTTP port: authentication, authorization, and the record of changes.

The rule: access is checked before anything else of a request is read.

``guarded`` authenticates, ``rules`` says who may use a route, ``audited`` records changes.
"""
