"""One scrape of several processes."""

from __future__ import annotations

from kubevouch.server.metrics.merged import counted, merged

ONE = """# HELP apiserver_request_total Requests.
# TYPE apiserver_request_total counter
apiserver_request_total{code="200",verb="GET"} 3.0
apiserver_request_total{code="404",verb="GET"} 1.0
# HELP apiserver_longrunning_requests Watches.
# TYPE apiserver_longrunning_requests gauge
apiserver_longrunning_requests{verb="WATCH"} 2.0
# HELP apiserver_storage_objects Objects.
# TYPE apiserver_storage_objects gauge
apiserver_storage_objects{resource="nodes"} 7.0
# HELP latency Time.
# TYPE latency histogram
latency_bucket{le="0.1"} 1.0
latency_bucket{le="+Inf"} 2.0
latency_sum 0.5
latency_count 2.0
"""
OTHER = """# HELP apiserver_request_total Requests.
# TYPE apiserver_request_total counter
apiserver_request_total{code="200",verb="GET"} 4.0
# HELP apiserver_longrunning_requests Watches.
# TYPE apiserver_longrunning_requests gauge
apiserver_longrunning_requests{verb="WATCH"} 3.0
# HELP apiserver_storage_objects Objects.
# TYPE apiserver_storage_objects gauge
apiserver_storage_objects{resource="nodes"} 6.0
# HELP latency Time.
# TYPE latency histogram
latency_bucket{le="0.1"} 0.0
latency_bucket{le="+Inf"} 1.0
latency_sum 0.25
latency_count 1.0
# HELP end_seconds When.
# TYPE end_seconds gauge
end_seconds{name="a b \\u2028\\\\n"} +Inf
"""
BOTH = """# HELP apiserver_request_total Requests.
# TYPE apiserver_request_total counter
apiserver_request_total{code="200",verb="GET"} 7.0
apiserver_request_total{code="404",verb="GET"} 1.0
# HELP apiserver_longrunning_requests Watches.
# TYPE apiserver_longrunning_requests gauge
apiserver_longrunning_requests{verb="WATCH"} 5.0
# HELP apiserver_storage_objects Objects.
# TYPE apiserver_storage_objects gauge
apiserver_storage_objects{resource="nodes"} 7.0
# HELP latency Time.
# TYPE latency histogram
latency_bucket{le="0.1"} 1.0
latency_bucket{le="+Inf"} 3.0
latency_sum 0.75
latency_count 3.0
# HELP end_seconds When.
# TYPE end_seconds gauge
end_seconds{name="a b \\u2028\\\\n"} +Inf
"""


def test_what_was_counted_adds_up_and_of_what_is_the_highest_stands() -> None:
    assert merged([ONE, OTHER]) == BOTH


def test_one_process_alone_and_one_that_said_nothing() -> None:
    assert merged([ONE, ""]) == ONE


def test_what_one_that_is_gone_had_counted_stays() -> None:
    gone = counted(["", ONE])
    assert 'apiserver_request_total{code="200",verb="GET"} 3.0' in gone
    assert 'latency_bucket{le="+Inf"} 2.0' in gone
    assert "longrunning" not in gone
    assert "storage_objects" not in gone
    assert merged([OTHER, gone]) == BOTH.replace('{verb="WATCH"} 5.0', '{verb="WATCH"} 3.0').replace(
        '{resource="nodes"} 7.0', '{resource="nodes"} 6.0'
    )
