"""Who may ask what of an HTTP port, and what is recorded of it.

The rule: the question comes before anything else is looked at.

``guarded`` lets in who proves who he is, ``rules`` says who may use a route, ``audited`` records
what changes something.
"""
