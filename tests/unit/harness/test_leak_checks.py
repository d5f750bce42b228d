from pathlib import Path

import pytest

pytest_plugins = ["pytester"]

CONFTEST = Path(__file__).parents[2] / "conftest.py"

LEAKING_TESTS = """
import os
import socket
import threading

import pytest

kept = []
stop = threading.Event()


@pytest.fixture(scope="module")
def listener():
    with socket.create_server(("127.0.0.1", 0)) as made:
        yield made


def test_thread_left():
    kept.append(threading.Thread(target=stop.wait, name="forgotten", daemon=True))
    kept[0].start()


def test_socket_left():
    stop.set()
    kept.append(socket.create_server(("127.0.0.1", 0)))


def test_connected_socket_left_to_the_garbage_collector(listener):
    with pytest.warns(ResourceWarning):
        socket.create_connection(listener.getsockname())


def test_tidy(listener):
    kept[1].close()
    with socket.create_server(("127.0.0.1", 0)):
        thread = threading.Thread(target=lambda: None)
        thread.start()


def test_environment():
    assert "KUBECONFIG" not in os.environ
    assert not os.listdir(os.environ["HOME"])
"""


def test_leaks_fail_the_test_that_made_them(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", "/somebody/elses.conf")
    monkeypatch.setenv("PYTHONPATH", str(CONFTEST.parent))  # the modules beside it
    pytester.makeconftest(CONFTEST.read_text())
    pytester.makepyfile(LEAKING_TESTS)
    # A process of its own: what is leaked on purpose must not stay in this one.
    result = pytester.runpytest_subprocess("-p", "no:kubevouch", "-p", "no:cacheprovider")
    result.assert_outcomes(passed=5, errors=2)
    result.stdout.fnmatch_lines(
        [
            "*ERROR at teardown of test_thread_left*",
            "*the test left the thread forgotten running*",
            "*ERROR at teardown of test_socket_left*",
            "*the test left a socket listening*",
        ]
    )
