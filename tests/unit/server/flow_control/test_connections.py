"""The number of connections."""

from kubevouch.server.flow_control.connections import MAX_CONNECTIONS, ConnectionLimits, fitting


def test_one_source_cannot_take_all() -> None:
    limits = ConnectionLimits(total=3, from_one_source=2)
    assert [limits.admit("a") for _ in range(3)] == [True, True, False]
    assert [limits.admit("b"), limits.admit("c")] == [True, False]
    assert limits.refused == 2
    limits.release("a")
    assert limits.admit("c")
    assert limits.open == 3


def test_a_source_under_its_share_may_take_the_place_of_another() -> None:
    limits = ConnectionLimits(total=2)
    assert limits.admit("a") and limits.admit("b") and limits.open == 2
    assert not limits.admit("c")
    assert limits.admit("c", gives_way=True)
    assert not limits.admit("a", gives_way=True)
    limits.release("b")
    assert limits.open == 2


def test_descriptors_bound_the_connections() -> None:
    assert [fitting(n) for n in (1 << 20, 20_000, 1024, 256)] == [MAX_CONNECTIONS, 19_744, 768, 128]
    assert 0 < ConnectionLimits.of_process()._total <= MAX_CONNECTIONS
