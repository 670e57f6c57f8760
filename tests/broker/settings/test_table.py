"""Settings: any table is either read or refused in one line that names the key."""

from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arneb.settings.table import ConfigInvalid, read_settings


@dataclass(frozen=True, slots=True)
class Inner:
    size_bytes: int = 1
    name: str = "inner"


@dataclass(frozen=True, slots=True)
class Needy:
    needed: str


@dataclass(frozen=True, slots=True)
class Outer:
    ratio: float = 0.5
    enabled: bool = True
    inner: Inner = Inner()
    names: tuple[str, ...] = ()
    needy: tuple[Needy, ...] = ()

    def __post_init__(self) -> None:
        if not 0 <= self.ratio <= 1:
            raise ValueError(f"expected a ratio from 0 to 1, got {self.ratio}")


toml_values = st.recursive(
    st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)


def test_an_empty_table_gives_the_defaults() -> None:
    assert read_settings(Outer, {}, {}) == Outer()


def test_nested_tables_and_lists_are_read() -> None:
    table = {"ratio": 1, "inner": {"size_bytes": 7}, "names": ["a"], "needy": [{"needed": "b"}]}
    assert read_settings(Outer, table, {}) == Outer(
        ratio=1.0, inner=Inner(size_bytes=7), names=("a",), needy=(Needy("b"),)
    )


@given(st.builds(Outer, st.floats(0, 1), st.booleans(), st.builds(Inner)))
def test_a_written_table_is_read_back(settings: Outer) -> None:
    table = {
        "ratio": settings.ratio,
        "enabled": settings.enabled,
        "inner": {"size_bytes": settings.inner.size_bytes, "name": settings.inner.name},
    }
    assert read_settings(Outer, table, {}) == settings


@given(
    st.dictionaries(
        st.sampled_from(["ratio", "enabled", "inner", "innner", "names", "needy"]) | st.text(),
        toml_values,
    )
)
def test_any_table_is_read_or_refused_in_one_line(table: dict[str, object]) -> None:
    try:
        read_settings(Outer, table, {})
    except ConfigInvalid as error:
        assert str(error)


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"enabld": True}, 'unknown key "enabld"; did you mean "enabled"?'),
        ({"inner": {"nam": "x"}}, 'unknown key "inner.nam"; did you mean "inner.name"?'),
        ({"qqqq": 1}, 'unknown key "qqqq"; known here: enabled, inner, names, needy, ratio'),
        ({"names": "a"}, "names: expected a list, got 'a'"),
        ({"names": ["a", 1]}, "names[1]: expected text, got 1"),
        ({"needy": [{"needed": "x"}, {}]}, '"needy[1].needed" is missing'),
        ({"enabled": 1}, "enabled: expected true or false, got 1"),
        ({"inner": {"size_bytes": True}}, "inner.size_bytes: expected a whole number, got True"),
        (
            {"inner": {"size_bytes": 1 << 63}},
            "inner.size_bytes: expected a whole number of at most 64 bits, got 9223372036854775808",
        ),
        ({"ratio": 1 << 2000}, f"ratio: expected a finite number, got {str(1 << 2000)[:37]}..."),
        ({"ratio": float("nan")}, "ratio: expected a finite number, got nan"),
        ({"ratio": float("-inf")}, "ratio: expected a finite number, got -inf"),
        ({"inner": 3}, "inner: expected a table, got 3"),
        ({"ratio": 2}, "expected a ratio from 0 to 1, got 2.0"),
    ],
)
def test_a_refusal_names_the_key_and_what_was_expected(
    table: dict[str, object], message: str
) -> None:
    with pytest.raises(ConfigInvalid) as caught:
        read_settings(Outer, table, {})
    assert str(caught.value) == message


@dataclass(frozen=True)
class Named:
    size_bytes: int = field(default=1, metadata={"also": "maxSize"})


def test_a_key_may_have_another_name() -> None:
    assert read_settings(Named, {"maxSize": 3}, {}) == Named(3)
    assert read_settings(Named, {"size_bytes": 3}, {}) == Named(3)
    with pytest.raises(ConfigInvalid, match="one key"):
        read_settings(Named, {"maxSize": 3, "size_bytes": 3}, {}, "t")
    with pytest.raises(ConfigInvalid, match="expected a whole number"):
        read_settings(Named, {"maxSize": "x"}, {})
