"""The drawing of who imports whom: arrows that say something, rows from the top, no circle."""

import pytest
from docs.graph.boxes import Box, levels, put_together, reach, reduce
from hypothesis import given
from hypothesis import strategies as st

NAMES = "abcdefg"
EDGES = st.sets(
    st.tuples(st.sampled_from(NAMES), st.sampled_from(NAMES)).filter(lambda each: each[0] < each[1])
)


def boxes_with(edges, alone: str = ""):
    return {
        name: Box(
            name, "p", [name], "" if name in alone else "said", {b for a, b in edges if a == name}
        )
        for name in NAMES
    }


@given(EDGES)
def test_arrows_that_are_left_out_follow_from_the_others(edges) -> None:
    boxes = boxes_with(edges)
    kept = reduce(boxes)
    fewer = boxes_with({(a, b) for a, below in kept.items() for b in below})
    for name in NAMES:
        assert reach(fewer, fewer[name].below) == reach(boxes, boxes[name].below)
        for each in kept[name]:
            assert each not in reach(boxes, boxes[name].below - {each})


@given(EDGES)
def test_importers_are_drawn_above_what_they_import(edges) -> None:
    height = levels(boxes_with(edges))
    assert all(height[a] > height[b] for a, b in edges)


@given(EDGES)
def test_modules_beside_folders_are_put_together_without_a_circle(edges) -> None:
    boxes = boxes_with(edges, alone="bdf")
    folders = {name: box for name, box in boxes.items() if box.caption}
    made = put_together(folders, [boxes[name] for name in "bdf"])
    levels(made)
    assert sorted(each for box in made.values() for each in box.children) == sorted(NAMES)


def test_a_circle_is_named_and_not_drawn() -> None:
    with pytest.raises(SystemExit, match="a circle: a -> b -> a"):
        levels(boxes_with({("a", "b"), ("b", "a")}))
