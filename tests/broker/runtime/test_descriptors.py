"""The limit of file descriptors is raised as far as the administrator allows."""

import resource

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arneb.runtime.descriptors import DESCRIPTORS_MAX, raise_limit

LIMITS = st.one_of(st.just(resource.RLIM_INFINITY), st.integers(1, 1 << 31))


def amount(limit: int) -> float:
    return float("inf") if limit == resource.RLIM_INFINITY else limit


@given(st.tuples(LIMITS, LIMITS).map(lambda pair: sorted(pair, key=amount)))
def test_only_the_soft_limit_is_changed_and_only_raised(limits: list[int]) -> None:
    soft, hard = limits
    now = [(soft, hard)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(resource, "getrlimit", lambda kind: now[-1])
        patch.setattr(resource, "setrlimit", lambda kind, both: now.append(both))
        result = raise_limit()
    assert now[-1] == (result, hard)
    assert amount(result) >= min(amount(hard), DESCRIPTORS_MAX)
    assert amount(soft) <= amount(result) <= max(amount(soft), DESCRIPTORS_MAX)
    assert amount(result) <= amount(hard)
