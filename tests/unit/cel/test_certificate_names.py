"""cel/certificate_names.py: names under a domain, addresses in networks, subsets."""

from __future__ import annotations

import pytest

from kubevouch.cel.environment import Environment, EvaluationError, ExpressionError

STRINGS = "list(string)"


def value(source: str, **variables: object) -> object:
    return Environment(dict.fromkeys(variables, STRINGS), names=True).compile(source).evaluate(variables)


@pytest.mark.parametrize("name", ["a.example.com", "a.b.example.com", "A.Example.COM", "_srv.example.com"])
def test_hosts_under_a_domain(name: str) -> None:
    assert value(f"'{name}'.under('example.com')") is True
    assert value("names.under('.example.com')", names=[name, "b.example.com"]) is True


@pytest.mark.parametrize(
    "name",
    [
        "example.com", "evilexample.com", "example.com.evil.org", ".example.com", "a..example.com", "*.example.com",
        "a.example.com.", "a\0.example.com", "a b.example.com", "-a.example.com", "a-.example.com", "",
        "a.example.com\n", "а.example.com", f"{'a' * 64}.example.com", f"{'a.' * 130}example.com", "x@a.example.com",
        "https://a.example.com",
    ],
)  # fmt: skip
def test_what_is_no_host_under_it(name: str) -> None:
    assert value("names.under('example.com')", names=["a.example.com", name]) is False


def test_no_domain_is_an_error() -> None:
    with pytest.raises(EvaluationError, match="empty domain"):
        value("'a'.under('')")


def test_addresses_in_networks() -> None:
    assert value("'10.1.2.3'.inNetworks(['192.168.0.0/16', '10.0.0.0/8'])") is True
    assert value("ips.inNetworks(['10.0.0.0/8', 'fd00::/8'])", ips=["10.0.0.1", "fd00::1"]) is True
    assert value("ips.inNetworks(['10.0.0.0/8'])", ips=["10.0.0.1", "11.0.0.1"]) is False
    assert value("ips.inNetworks(['0.0.0.0/0'])", ips=["::1"]) is False
    assert value("ips.inNetworks([])", ips=["10.0.0.1"]) is False


@pytest.mark.parametrize("source", ["'x'.inNetworks(['10.0.0.0/8'])", "'10.0.0.1'.inNetworks(['10.0.0.0'])"])
def test_what_is_no_address_or_network_is_an_error(source: str) -> None:
    with pytest.raises(EvaluationError):
        value(source)


def test_subsets() -> None:
    assert value("these.isSubset(those)", these=["a", "a"], those=["b", "a"]) is True
    assert value("these.isSubset(those)", these=["a", "c"], those=["b", "a"]) is False
    assert value("these.isSubset(those)", these=[], those=[]) is True
    assert value("[1, 2].isSubset([2, 1, 3])") is True


def test_other_expressions_do_not_know_them() -> None:
    with pytest.raises(ExpressionError, match="under"):
        Environment({}).compile("'a.b'.under('b')")


def test_large_lists_cost() -> None:
    many = [f"{number}" for number in range(2000)]
    with pytest.raises(EvaluationError, match="cost limit"):
        value("these.isSubset(these)", these=many)
