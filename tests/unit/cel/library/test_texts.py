"""cel/library/texts.py"""

from __future__ import annotations

import pytest

from cel_cases import error_of, value_of


@pytest.mark.parametrize(
    ("source", "value"),
    [
        ("'hello'.charAt(4)", "o"),
        ("'hello'.charAt(5)", ""),
        ("'hello mellow'.indexOf('ello')", 1),
        ("'hello mellow'.indexOf('ello', 2)", 7),
        ("'hello mellow'.indexOf('jello')", -1),
        ("'hello mellow'.lastIndexOf('ello')", 7),
        ("'hello mellow'.lastIndexOf('ello', 6)", 1),
        ("'hello mellow'.lastIndexOf('')", 12),
        ("['hello', 'mellow'].join(' ')", "hello mellow"),
        ("[].join('/')", ""),
        ("['a', 'b'].join()", "ab"),
        ("'TacoCat Éa'.lowerAscii()", "tacocat Éa"),
        ("'TacoCÆt Xii'.upperAscii()", "TACOCÆT XII"),
        ("'hello hello'.replace('he', 'we')", "wello wello"),
        ("'hello hello'.replace('he', 'we', 1)", "wello hello"),
        ("'hello hello'.replace('he', 'we', 0)", "hello hello"),
        ("'ab'.replace('', '_')", "_a_b_"),
        ("'a b c'.split(' ')", ["a", "b", "c"]),
        ("'a b c'.split(' ', 0)", []),
        ("'a b c'.split(' ', 1)", ["a b c"]),
        ("'a b c'.split(' ', 2)", ["a", "b c"]),
        ("'a b c'.split(' ', -1)", ["a", "b", "c"]),
        ("'abc'.split('')", ["a", "b", "c"]),
        ("'abc'.split('', 2)", ["a", "bc"]),
        ("'tacocat'.substring(4)", "cat"),
        ("'tacocat'.substring(0, 4)", "taco"),
        ("'ta©o😁'.substring(2, 3)", "©"),
        ("' \u00a0trim\\n '.trim()", "trim"),
        ("strings.quote('a \"b\"\\n')", '"a \\"b\\"\\n"'),
        ("'abc 123'.find('[0-9]+')", "123"),
        ("'abc'.find('[0-9]+')", ""),
        ("'123 abc 456'.findAll('[0-9]+')", ["123", "456"]),
        ("'123 abc 456'.findAll('[0-9]+', 1)", ["123"]),
        ("'123 abc 456'.findAll('xyz')", []),
        ("'123 abc 456'.findAll('[0-9]+', -1).size()", 2),
    ],
)
def test_values(source: str, value: object) -> None:
    assert value_of(source) == value


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("'tacocat'.charAt(30)", "index out of range: 30"),
        ("'tacocat'.substring(-1)", "index out of range: -1"),
        ("'tacocat'.substring(4, 3)", "invalid substring range. start: 4, end: 3"),
        ("'a'.find('(' + '')", "error parsing regexp: missing closing ): `(`"),
        ("'a'.matches('a*' + '*')", "error parsing regexp: invalid nested repetition operator: `**`"),
        ("o.join()", "no such overload"),
    ],
)
def test_errors(source: str, text: str) -> None:
    assert error_of(source, [1]) == text
