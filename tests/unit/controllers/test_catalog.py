"""controllers/catalog.py: the list syntax of ``--controllers``."""

from __future__ import annotations

import pytest

from kubevouch import wellknown
from kubevouch.authorization.bootstrap_policy import bootstrap_policy
from kubevouch.authorization.controller_policy import kubevouch_controller_policy
from kubevouch.controllers.catalog import CONTROLLERS, UnknownControllerError, select

ALL = [entry.name for entry in CONTROLLERS]


def chosen(*words: str) -> list[str]:
    return [entry.name for entry in select(words)]


def test_a_star_is_all_and_nothing_is_none() -> None:
    assert chosen("*") == ALL
    assert chosen() == []


def test_names_and_aliases_turn_on() -> None:
    assert chosen("csrsigning", wellknown.CSR_CLEANER_CONTROLLER) == [
        wellknown.CSR_SIGNING_CONTROLLER,
        wellknown.CSR_CLEANER_CONTROLLER,
    ]


def test_a_dash_turns_off() -> None:
    assert chosen("*", "-csrcleaner") == [name for name in ALL if name != wellknown.CSR_CLEANER_CONTROLLER]
    assert chosen("-csrcleaner") == []


@pytest.mark.parametrize(
    ("words", "on"), [(("csrcleaner", "-csrcleaner"), True), (("-csrcleaner", "*", "csrcleaner"), False)]
)
def test_the_first_word_about_a_controller_counts(words: tuple[str, ...], on: bool) -> None:
    assert (wellknown.CSR_CLEANER_CONTROLLER in chosen(*words)) is on


def test_all_unknown_words_are_told() -> None:
    with pytest.raises(UnknownControllerError) as refusal:
        select(["*", "-nope", "deployment"])
    assert str(refusal.value) == (
        '"nope" is not in the list of known controllers\n"deployment" is not in the list of known controllers'
    )


def test_names_and_aliases_are_different_words() -> None:
    words = [word for entry in CONTROLLERS for word in (entry.name, entry.alias)]
    assert len(set(words)) == len(words)


def test_each_controller_has_its_own_rights() -> None:
    policy = bootstrap_policy() + kubevouch_controller_policy()
    wide = {subject.name for binding in policy.cluster_role_bindings for subject in binding.subjects or []}
    narrow = {subject.name for binding in policy.role_bindings for subject in binding.subjects or []}
    assert set(ALL) <= wide | narrow
