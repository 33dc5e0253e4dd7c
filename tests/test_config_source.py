"""The search for the line of a key."""

from __future__ import annotations

from loops import over

from subord.config.source import line_of

LAID_OUT = '''\
# fanout = 1
[node] # cluster.fanout
event_log = """
fanout = 2
"""

"cluster"."network" = [
  "fanout = 3", # a comment ]
]
[cluster]\r
 'fanout'\t= 4\r
point = { x = 1, y = { z = 2 } }
a.b = 1
a.c = 2
[[list]]
[[list]]
key = 1
'''


@over(
    ("path", "line"),
    [
        (["node"], 2),
        (["node", "event_log"], 3),
        (["cluster", "fanout"], 11),
        (["cluster"], 10),
        (["cluster", "point", "y", "z"], 12),
        (["cluster", "a", "b"], 13),
        (["cluster", "a", "c"], 14),
        (["list"], 15),
        (["list", "key"], None),
        (["cluster", "nothing"], None),
        (["fanout"], None),
        ([], None),
    ],
)
def test_the_line_of_a_key(path: list[str], line: int | None) -> None:
    # The quoted header is legal only as dotted keys under [node]: there it is node.cluster.network.
    assert line_of(LAID_OUT, path) == line
    assert line_of(LAID_OUT, ["node", "cluster", "network"]) == 7


def test_no_line_is_searched_in_a_long_file() -> None:
    assert line_of("\n" * 1000 + "a = 1", ["a"]) is None
