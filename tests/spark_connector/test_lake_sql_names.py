"""The names of topics in SQL."""

import pytest

from pyspark_arneb.lake.sql_names import advice, quoted, topics_in
from pyspark_arneb.log.topics import full_name, short_name
from pyspark_arneb.target import LakeError

TOPICS = frozenset(
    map(full_name, ("orders", "Orders", "orders.eu", "my-queue", 'we"ird', "a/b/c", "e", "totals"))
)


def meant(sql: str) -> list[str]:
    return [short_name(topic) for topic in topics_in(sql, TOPICS)]


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("select * from totals", ["totals"]),
        ("select * from TOTALS", ["totals"]),
        ("select 1", []),
        ("select key from totalspast", []),
        ('select * from "my-queue"', ["my-queue"]),
        ('select * from "we""ird"', ['we"ird']),
        ('select * from "a/b/c" join totals using (key)', ["a/b/c", "totals"]),
        ("select * from Orders", ["Orders"]),
        ("select * from orders", ["orders"]),
    ],
)
def test_a_query_means_the_topics_whose_names_are_words_of_it(
    sql: str, expected: list[str]
) -> None:
    assert sorted(meant(sql)) == sorted(expected)


@pytest.mark.parametrize("sql", ["from orders join Orders using (key)", "from ORDERS"])
def test_topics_that_differ_in_case_only_are_not_mixed_up(sql: str) -> None:
    with pytest.raises(LakeError, match="^Orders and orders differ in case only"):
        meant(sql)


def missing(name: str) -> str:
    return f"Catalog Error: Table with name {name} does not exist!"


@pytest.mark.parametrize(
    ("sql", "error", "expected"),
    [
        ("from totls", missing("totls"), "did you mean totals?"),
        ("from nothing", missing("nothing"), "there are a/b/c, Orders, e, my-queue"),
        (
            "from orders.eu",
            'Table with name "orders.eu" does not exist because schema "orders" does not exist.',
            'in double quotes: "orders.eu"',
        ),
        ("from my-queue", 'Parser Error: syntax error at or near "-"', 'quotes: "my-queue"'),
        ('from "my-queue" where', "Parser Error: syntax error at end of input", ""),
        ("selec 1", 'Parser Error: syntax error at or near "selec"', ""),
    ],
)
def test_what_is_wrong_with_a_name_is_said_with_the_right_one(
    sql: str, error: str, expected: str
) -> None:
    hint = advice(sql, error, TOPICS)
    assert expected in hint and bool(expected) == bool(hint)


def test_a_name_in_quotes_is_that_name() -> None:
    assert quoted('we"ird') == '"we""ird"'
