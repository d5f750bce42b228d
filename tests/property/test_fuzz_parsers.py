"""Whatever bytes come, each parser reads them or refuses them in its own words."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fuzz_targets import TARGETS, Target
from property.fuzz_strategies import examples, inputs


@pytest.mark.parametrize("name", TARGETS)
@examples(120)
@given(data=st.data())
def test_any_bytes_are_read_or_refused(name: str, data: st.DataObject) -> None:
    target = TARGETS[name]
    target.run(data.draw(inputs(target.seeds, target.words)))


@pytest.mark.parametrize("name", TARGETS)
def test_a_parser_accepts_one_of_its_seeds(name: str) -> None:
    """So that damage is what a refusal is for."""
    target: Target = TARGETS[name]
    refused = []
    for seed in target.seeds:
        try:
            target.parse(seed)
            return
        except target.refuses_with as err:
            refused.append(err)
    raise AssertionError(refused)
