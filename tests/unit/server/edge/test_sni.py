"""Which pair a client is shown; expectations from Go's crypto/tls (Config.getCertificate) and kube-apiserver's flag."""

from __future__ import annotations

from pathlib import Path

import pytest

from kubevouch.server.edge import sni
from kubevouch.server.edge.sni import NamedFiles
from kubevouch.server.edge.tls import ServingFiles, TLSOptions, TLSOptionsError
from throwaway_ca import ThrowawayCA
from tls_shown import shown


def named(folder: Path, label: str, name: str, *names: str) -> NamedFiles:
    certificate, key = ThrowawayCA().issue(name).write(folder, label)
    return NamedFiles(ServingFiles(Path(certificate), Path(key)), names)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("a.crt,a.key", ()),
        ("a.crt, a.key", ()),
        ("a.crt,a.key:Example.com,*.example.com", ("example.com", "*.example.com")),
        ("a.crt,a.key:", ()),
    ],
)
def test_values_that_are_taken(text: str, names: tuple[str, ...]) -> None:
    assert sni.parse(text) == NamedFiles(ServingFiles(Path("a.crt"), Path("a.key")), names)


@pytest.mark.parametrize("text", ["", "a.crt", "a.crt,", ",a.key", "a.crt,a.key,b.key", "a.crt:a.com"])
def test_values_without_two_files(text: str) -> None:
    with pytest.raises(TLSOptionsError, match=r"^expected comma separated certificate and key file paths$"):
        sni.parse(text)


@pytest.mark.parametrize("name", ["a b", "*", "a.*.com", "-a.com", "a..com", "xn--ü.com"])
def test_names_that_no_client_asks_for(name: str) -> None:
    with pytest.raises(TLSOptionsError, match=r"^got the name .*, expected host\.example\.com or \*\.example\.com$"):
        sni.parse(f"a.crt,a.key:{name}")


def test_the_exact_name_counts_before_the_wildcard_and_that_for_one_label(tmp_path: Path) -> None:
    contexts = sni.table(
        [
            named(tmp_path, "w", "w.test", "*.example.com"),
            named(tmp_path, "x", "x.test", "a.example.com"),
            named(tmp_path, "o", "own.test"),
        ],
        TLSOptions(),
    )
    wildcard, exact = contexts["*.example.com"], contexts["a.example.com"]
    chosen = {
        "a.example.com": exact,
        "A.Example.com.": exact,
        "b.example.com": wildcard,
        "c.b.example.com": None,
        "example.com": None,
        "": None,
        "own.test": contexts["own.test"],
    }
    assert {name: sni.choose(name, contexts) for name in chosen} == chosen


def test_a_name_of_a_flag_counts_before_that_of_a_certificate_and_the_first_of_two(tmp_path: Path) -> None:
    of_certificate = named(tmp_path, "c", "a.test")
    first, second = named(tmp_path, "1", "1.test", "a.test"), named(tmp_path, "2", "2.test", "a.test")
    assert sni.table([of_certificate], TLSOptions()).keys() == {"a.test", "localhost"}
    contexts = sni.table([of_certificate, first, second], TLSOptions())
    assert shown(contexts["a.test"]) == first.files.certificate.read_bytes()


def test_files_that_are_no_pair(tmp_path: Path) -> None:
    good, other = named(tmp_path, "g", "g.test"), named(tmp_path, "o", "o.test")
    for files, told in (
        (ServingFiles(good.files.certificate, other.files.key), "expected the key of the certificate in"),
        (ServingFiles(tmp_path / "none", good.files.key), "cannot be read"),
        (ServingFiles(good.files.key, good.files.key), "expected a PEM file with a certificate"),
    ):
        with pytest.raises(TLSOptionsError, match=told):
            sni.table([NamedFiles(files)], TLSOptions())
