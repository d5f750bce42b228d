"""Makes field_numbers.json from field_numbers.txt: python tests/vectors/make_field_numbers.py"""

import json
import pathlib
import re

HERE = pathlib.Path(__file__).parent


def messages(text):
    """{group: {message: {"partial": bool, "fields": {name: [number, type]}}}}"""
    groups = {}
    group = {}
    for line in text.splitlines():
        if not line or line.startswith("#"):
            continue
        if line.startswith("["):
            group = groups.setdefault(line.strip("[]"), {})
            continue
        name, _, rest = line.partition(":")
        # Commas separate fields, and key from value inside map<…>.
        fields = re.findall(r"(\d+) ([\w$-]+):((?:\[\])?(?:map<[^>]*>|\w+))", rest)
        group[name.lstrip("!")] = {
            "partial": name.startswith("!"),
            "fields": {field: [int(number), kind] for number, field, kind in fields},
        }
    return groups


if __name__ == "__main__":
    table = messages((HERE / "field_numbers.txt").read_text())
    (HERE / "field_numbers.json").write_text(json.dumps(table, indent=1) + "\n")
