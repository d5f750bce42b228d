from __future__ import annotations

from typing import Any

import pytest

from kubevouch.structural.formats import is_known, text_format, unrecognized_formats

GOOD_AND_BAD: dict[str, tuple[list[str], list[str]]] = {
    "bsonobjectid": (["507f1f77bcf86cd799439011", "507F1F77BCF86CD799439011"], ["", "507f1f77bcf86cd7", "g" * 24]),
    "uri": (
        ["http://a.b/c?d#e", "/a/b", "mailto:x", "a:b", "http://[::1]:80/", "urn:x:y", "//host/x"],
        ["", "a.b/c", "x", "http://a b/", "http://[::1", "1a:b", "http://a:x/", "/%zz", "/\n"],
    ),
    "email": (
        [
            "a@b", "a.b+c@example.com", '"a b"@c.d', '"a\\"b"@c', "A B <a@b.c>", '"A, B" <a@b>', "<a@b>", "a@b (c (d))",
            "é@ü", "root@[127.0.0.1]", "g: a@b;", "a@b <a@b>", " a@b ",
        ],
        [
            "", "a", "a@", "@b", "a@b@c", "a..b@c", ".a@b", "a.@b", "a b@c", "a@b.", "a@b, c@d", "A <a@b", '""@b',
            "g:;", "g: a@b, c@d;", "a@[b]", "a@b (c", "a@b\x00", '"a@b', "a@b x",
        ],
    ),
    "hostname": (
        ["a", "a.com", "A-b.example.org", "1.com", "xn--a.co", "☁→❄.ws", "a" * 63, "a.ôlà", "x-y"],
        ["", "a.b.c.d", "1.1.1.1", "-a", "ab-", "a..com", "a_b.com", "a.com.", "a b", "a" * 64, "a" * 250 + ".com",
         "☁☁☁☁☁☁☁☁☁☁." * 9 + "ws"],
    ),
    "ipv4": (
        ["1.2.3.4", "01.002.3.4", "255.255.255.255", "::ffff:1.2.3.4", "::ffff:1.2.3.04"],
        ["", "1.2.3", "1.2.3.4.5", "256.1.1.1", "1.2.3.a", "::1", "1.2.3.4/8", " 1.2.3.4", "1.2.3.-4", "1.2.3.١"],
    ),
    "ipv6": (
        ["::", "::1", "1:2:3:4:5:6:7:8", "fe80::1", "::ffff:1.2.3.4", "1:2:3:4:5:6:7::", "ABCD::"],
        ["", "1.2.3.4", "fe80::1%eth0", ":::", "1::2::3", "00001::", "::ffff:1.2.3.04", "[::1]", "1:2:3:4:5:6:7:8:9"],
    ),
    "cidr": (
        ["10.0.0.0/8", "10.0.0.1/032", "010.0.0.0/8", "::/0", "fe80::1/128", "0::00000/64"],
        ["", "10.0.0.0", "10.0.0.0/33", "::/129", "10.0.0.0/", "10.0.0.0/-1", "a/8", "10.0.0.0/8/8", "10.0.0.0/ 8"],
    ),
    "mac": (
        ["00:11:22:aa:BB:cc", "00-11-22-33-44-55", "0011.2233.4455", "00:11:22:33:44:55:66:77", "0011.2233.4455.6677",
         ":".join(["00"] * 20)],
        ["", "00:11:22:33:44", "00:11-22:33:44:55", "001122334455", "0011:2233:4455", "00:11:22:33:44:5g",
         "00:11:22:33:44:55:66"],
    ),
    "uuid": (
        ["123e4567-e89b-12d3-a456-426614174000", "123E4567E89B12D3A456426614174000"],
        ["", "123e4567-e89b-12d3-a456-42661417400", "x23e4567-e89b-12d3-a456-426614174000",
         "123e4567-e89b-12d3-a456-426614174000\n"],
    ),
    "uuid3": (["6fa459ea-ee8a-3ca4-894e-db77e160355e"], ["6fa459ea-ee8a-4ca4-894e-db77e160355e"]),
    "uuid4": (["6fa459ea-ee8a-4ca4-894e-db77e160355e"], ["6fa459ea-ee8a-4ca4-194e-db77e160355e"]),
    "uuid5": (["886313e1-3b8a-5372-9b90-0c9aee199e5d"], ["886313e1-3b8a-5372-cb90-0c9aee199e5d"]),
    "isbn": (["0321751043", "978-0321751041"], ["0321751044", "x"]),
    "isbn10": (["0321751043", "0-9752298-0-X", "0 321 75104 3"], ["0321751042", "032175104", "978-0321751041"]),
    "isbn13": (["978-0321751041"], ["978-0321751042", "0321751043"]),
    "creditcard": (["4111-1111-1111-1111", "4012 8888 8888 1881", "x378282246310005"], ["4111-1111-1111-1112", ""]),
    "ssn": (["111-11-1111", "111 11-1111"], ["111111111", "111-11-111", "111--11-111", ""]),
    "hexcolor": (["#fff", "FFFFFF", "#012345"], ["", "#ff", "#fffff", "#ggg", "##fff"]),
    "rgbcolor": (["rgb(0,1,255)", "rgb( 1 , 2 , 3 )"], ["rgb(256,0,0)", "rgb(1,2)", "rgba(1,2,3)", "rgb(01,2,3)", ""]),
    "byte": (["YQ==", "YWI=", "YWJj", "+/+/"], ["", "YQ", "YQ=", "Y Q=", "_-_-", "YQ==YQ=="]),
    "password": (["", "anything"], []),
    "date": (["2024-02-29", "0000-02-29", "2023-12-31"], ["", "2023-02-29", "2023-13-01", "2023-1-01", "2023-01-01T"]),
    "duration": (
        ["1h30m", "1.5s", "-3ms", "0", "2 days", "3 weeks 2 hours", "1 fortnight 1 sec", "7µs", "10W", " 5 min "],
        ["", "1", "h", "1 fortnight", "1.5 days", "9999999999999999999 days", "1 day 99999999999999999999 s", "x1s"],
    ),
    "date-time": (
        ["2024-01-01T00:00:00Z", "2024-01-01t10:20:30.5z", "2024-01-01T10:20:30+01:00", "2024-01-01T10:20:30,5Z",
         "2024-01-01T10:20:30Ztrailing"],
        ["", "2024-01-01", "2024-01-01 00:00:00Z", "2024-01-01T24:00:00Z", "2024-01-01T00:00:60Z",
         "2024-13-01T00:00:00Z", "2024-01-01T00:00:00", "2024-01-01T00:00:00+0100"],
    ),
    "k8s-short-name": (["a", "a-b", "0"], ["", "A", "a.b", "-a", "a-", "a" * 64]),
    "k8s-long-name": (["a.b", "a" * 253, "0.1"], ["", "a..b", ".a", "a.", "a" * 254, "A"]),
}  # fmt: skip


@pytest.mark.parametrize("name", GOOD_AND_BAD)
def test_texts_of_a_format(name: str) -> None:
    good, bad = GOOD_AND_BAD[name]
    check = text_format(name)
    assert [text for text in good if not check(text)] == []
    assert [text for text in bad if check(text)] == []


ENDLESS = ("a", "1", "(", '"', "\\", ":", "1.", "0:", "a@", '"a"', "1 d ", "[", "-", "=", "☁", "a,", "a ", "t", "A=")


@pytest.mark.parametrize("name", GOOD_AND_BAD)
def test_long_texts_are_read_once(name: str) -> None:
    check = text_format(name)
    for text in ENDLESS:
        assert check(text * 100_000) in (True, False)


def test_dashes_in_names_do_not_count() -> None:
    assert is_known("string", "datetime")
    assert is_known("", "k8sshortname")
    assert is_known("string", "u-u-i-d")
    assert not is_known("string", "quantity")
    assert is_known("integer", "int32")
    assert not is_known("integer", "int-32")


@pytest.mark.parametrize(
    ("tree", "expected"),
    [
        ({"type": "string", "format": "date-time"}, []),
        ({"type": "string", "format": "dateTime"}, ["dateTime"]),
        ({"format": "uuid"}, []),
        ({"type": "string", "format": "k8s-short-name"}, []),
        ({"type": "string", "format": "int32"}, ["int32"]),
        ({"type": "integer", "format": "int32"}, []),
        ({"type": "integer", "format": "uint8"}, ["uint8"]),
        ({"type": "number", "format": "double"}, []),
        ({"type": "object", "format": "uuid"}, ["uuid"]),
        (
            {
                "properties": {"a": {"items": {"format": "x"}}, "b": {"additionalProperties": {"format": "y"}}},
                "anyOf": [{"not": {"format": "z"}}, {"format": "x"}],
                "items": [{"format": "w"}],
                "dependencies": {"a": ["b"]},
            },
            ["w", "z", "x", "x", "y"],
        ),
    ],
)
def test_formats_that_nobody_checks(tree: dict[str, Any], expected: list[str]) -> None:
    assert unrecognized_formats(tree) == expected
