"""No two vhosts share a namespace, whatever their names; existing ones stay where they were."""

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from arneb_core.access.edits import Edit
from arneb_core.access.errors import NamespaceTaken
from arneb_core.access.namespaces import carried_namespace, proposed_namespace
from arneb_core.access.records import Vhost
from arneb_core.access.tables import Tables

NAMES = st.one_of(
    st.sampled_from(
        ["/", "default", "public/default", "v", "public/v", "a b", "a=20b", "a/b/c", "v/"]
    ),
    st.text(st.sampled_from("ab/=% é2:."), min_size=1, max_size=6),
    st.text(min_size=1).filter(lambda text: text.isprintable()),
)
OF_PULSAR = re.compile(r"[-=:.\w]+/[-=:.\w]+", re.ASCII)
"""What Pulsar takes as a tenant and a namespace."""


@pytest.mark.parametrize(
    ("vhost", "namespace"),
    [
        ("/", "public/default"),
        ("default", "public/default"),
        ("v", "public/v"),
        ("t/n", "t/n"),
        ("public/v", "public/v"),
        ("a b", "public/a=20b"),
        ("a=b", "public/a=3Db"),
        ("a/b/c", "a/b=2Fc"),
        ("/x", "public/=2Fx"),
        ("x/", "public/x=2F"),
        ("ü", "public/=C3=BC"),
    ],
)
def test_a_name_proposes_a_namespace(vhost: str, namespace: str) -> None:
    assert proposed_namespace(vhost) == namespace


@given(st.lists(NAMES, max_size=12))
@example(["/", "default", "public/default"])
@example(["v", "public/v"])
def test_the_namespaces_of_vhosts_are_one_to_one(names: list[str]) -> None:
    tables, refused = Tables(), 0
    for name in names:
        edit = Edit(tables)
        try:
            made = edit.put_vhost(name)
        except NamespaceTaken as error:
            refused += 1
            other = tables.vhost_names[proposed_namespace(name)]
            assert other != name
            assert f"'{name}'" in str(error)
            assert f"'{other}'" in str(error)
        else:
            assert OF_PULSAR.fullmatch(made.namespace)
            tables.apply(edit.changed)
    vhosts = tables.rows(Vhost)
    assert len({each.namespace for each in vhosts}) == len(vhosts)
    assert {each.namespace: each.name for each in vhosts} == tables.vhost_names
    assert len(vhosts) + refused >= len(set(names))


SIMILAR = st.one_of(
    NAMES,
    st.tuples(st.sampled_from(["", "public/"]), st.text("a/", min_size=1, max_size=2)).map("".join),
)


@given(st.data(), SIMILAR)
def test_different_names_propose_the_same_only_where_the_tenant_public_is_spelt_out(
    data: st.DataObject, one: str
) -> None:
    near = [f"public/{one}", one.removeprefix("public/"), f"{one}/", f"/{one}", "=2F".join(one)]
    other = data.draw(st.one_of(SIMILAR, st.sampled_from(near)))
    is_same = proposed_namespace(one) == proposed_namespace(other)
    spelt_out = any(each.startswith("public/") for each in (one, other))
    assert not is_same or one == other or {"/", "default"} >= {one, other} or spelt_out
    if "/" not in one:
        assert proposed_namespace(f"public/{one}") == proposed_namespace(one)


def test_topics_of_before_stay_where_they_are() -> None:
    topics = ["persistent://public/a%20b/q", "persistent://public/c/q"]
    assert carried_namespace("a b", topics) == "public/a%20b"
    assert carried_namespace("a b", []) == "public/a=20b"
    assert carried_namespace("c", topics) == "public/c"
