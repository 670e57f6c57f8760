"""A certificate says who the client is."""

import pytest

from arneb_pulsar.authentication.grants import Grant, Unauthentic, grant_certificate


def test_a_certificate_grants_its_common_name() -> None:
    subject = ((("organizationName", "o"),), (("commonName", "me"),))
    assert grant_certificate({"subject": subject}) == Grant("me")
    for bad in ({}, {"subject": ()}, {"subject": ((("commonName", ""),),)}):
        with pytest.raises(Unauthentic):
            grant_certificate(bad)
