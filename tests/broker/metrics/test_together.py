"""The metrics of several brokers of one node, on one page."""

from arneb.metrics.together import together

MAIN = """\
# HELP arneb_topics How many there are
# TYPE arneb_topics gauge
arneb_topics 3
# HELP arneb_seconds How long it took
# TYPE arneb_seconds histogram
arneb_seconds_bucket{le="1"} 2
arneb_seconds_count{} 2
# HELP process_open_fds Of the process
# TYPE process_open_fds gauge
process_open_fds 7
# HELP arneb_cluster_leads Of all shards
# TYPE arneb_cluster_leads gauge
arneb_cluster_leads{shard="main"} 1
arneb_cluster_leads{shard="audit"} 1
"""
AUDIT = MAIN.replace(" 3\n", " 4\n").replace(" 2\n", " 5\n").replace(" 7\n", " 8\n")


def test_every_series_names_its_broker_and_has_one_heading() -> None:
    assert (
        together([("main", MAIN), ("audit", AUDIT)])
        == """\
# HELP arneb_topics How many there are
# TYPE arneb_topics gauge
arneb_topics{shard="main"} 3
arneb_topics{shard="audit"} 4
# HELP arneb_seconds How long it took
# TYPE arneb_seconds histogram
arneb_seconds_bucket{shard="main",le="1"} 2
arneb_seconds_count{shard="main"} 2
arneb_seconds_bucket{shard="audit",le="1"} 5
arneb_seconds_count{shard="audit"} 5
# HELP process_open_fds Of the process
# TYPE process_open_fds gauge
process_open_fds 7
# HELP arneb_cluster_leads Of all shards
# TYPE arneb_cluster_leads gauge
arneb_cluster_leads{shard="main"} 1
arneb_cluster_leads{shard="audit"} 1
"""
    )


def test_a_single_broker_is_named_too_so_that_series_continue_when_another_is_added() -> None:
    [line] = [
        each for each in together([("audit", AUDIT)]).splitlines() if each.startswith("arneb_top")
    ]
    assert line == 'arneb_topics{shard="audit"} 4'
