"""The number of connections."""

from kubevouch.server.flow_control.connections import ConnectionLimits


def test_one_source_cannot_take_all() -> None:
    limits = ConnectionLimits(total=3, from_one_source=2)
    assert [limits.admit("a") for _ in range(3)] == [True, True, False]
    assert [limits.admit("b"), limits.admit("c")] == [True, False]
    assert limits.refused == 2
    limits.release("a")
    assert limits.admit("c")
    assert limits.open == 3
