"""The declared rules of a policy: lists of what may be there, bounds of keys and lifetimes, what was issued before.

    PolicyFault    rules that cannot be kept to, or that contradict each other

A rule ends as :class:`kubevouch.policy.verdict.StepResult` says. ``UNMET`` is a contradiction of the request itself,
which never changes; what may change is ``UNKNOWN``; what the policy says nothing of is ``SKIPPED``.
"""

from __future__ import annotations

import datetime as dt
import ipaddress
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from kubevouch.api.kubevouch_v1alpha1.certificate_request_policies import (
    APPROVE,
    APPROVE_OR_DENY,
    MAX_NAMES,
    AllowedAddresses,
    AllowedHosts,
    AllowedKey,
    AllowedSubject,
    AllowedTexts,
    CertificateRequestPolicySpec,
    ExpirationBounds,
)
from kubevouch.pki.name_patterns import Kind, PatternError, Patterns
from kubevouch.pki.node_user import node_name_of
from kubevouch.pki.x509.certificate_extensions import BASIC_CONSTRAINTS
from kubevouch.policy.facts import RequestFacts
from kubevouch.policy.verdict import Step, StepResult

_LABEL = "[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?"
# A host that every reader takes for the same one: no NUL, blank, trailing dot or empty label.
_HOST = re.compile(rf"{_LABEL}(?:\.{_LABEL})*", re.ASCII | re.IGNORECASE)
_MAX_HOST = 253
_PRINTABLE = re.compile(r"[!-~](?:[ -~]*[!-~])?", re.ASCII)
# What a reader of paths takes away, so that a pattern matched another name than the one that is used.
_EVASIVE = re.compile(r"/\.{1,2}(?:[/?#]|\Z)|[\\%]|(?<!:)//", re.ASCII)
# Which no signer issues as they are asked for, and openssl and others put into every request.
_HARMLESS = frozenset({"2.5.29.17", "2.5.29.14", "2.5.29.15", "2.5.29.37", BASIC_CONSTRAINTS})
_SIZELESS = ("Ed25519", "ML-DSA")
_SHOWN = 5


class PolicyFault(ValueError):
    """Rules that cannot be kept to, or that contradict each other."""


class Records(msgspec.Struct, frozen=True, kw_only=True):
    """What was issued and approved before, as far as a policy asks for it.

    Args:
        fault: why nothing is known; then nothing else is set.
        key: which request of the same requester had a certificate for its key, as a clause; empty if none had.
        key_waits: which may still get one, or had one for somebody else, likewise.
        approved: how many requests of the requester to the same signer were approved in the seconds that the key says.
        certificates: how many certificates of the same signer the node has that have not ended.
        holders: who else has a certificate that has not ended for a name of the request, as a clause, by the name.
    """

    fault: str = ""
    key: str = ""
    key_waits: str = ""
    approved: Mapping[int, int] = {}
    certificates: int = 0
    holders: Mapping[str, str] = {}


class RecordNeeds(msgspec.Struct, frozen=True, kw_only=True):
    """Which of :class:`Records` a policy asks for."""

    key: bool = False
    periods: frozenset[int] = frozenset()
    certificates: bool = False
    holders: bool = False

    def __bool__(self) -> bool:
        return bool(self.key or self.periods or self.certificates or self.holders)

    def __or__(self, other: RecordNeeds) -> RecordNeeds:
        return RecordNeeds(
            key=self.key or other.key,
            periods=self.periods | other.periods,
            certificates=self.certificates or other.certificates,
            holders=self.holders or other.holders,
        )


Check = Callable[[RequestFacts, Records], Iterator[Step]]


def compile_constraints(spec: CertificateRequestPolicySpec) -> Sequence[Check]:
    """Every rule of ``spec`` but its expressions, in the order in which they are looked at.

    Raises:
        PolicyFault: with what is wrong.
    """
    if spec.effect in (APPROVE, APPROVE_OR_DENY) and not spec.usages:
        raise PolicyFault("spec.usages is empty, so that nothing can be approved: list the usages that may be there")
    subject = spec.subject or AllowedSubject()
    checks: list[Check] = [
        *(_subject_check(field, getattr(subject, field)) for field in AllowedSubject.__struct_fields__),
        _hosts(spec.dns_names),
        _addresses(spec.ip_addresses),
        _texts("san.email", spec.email_addresses, lambda facts: facts.email_addresses, Kind.EMAIL),
        _texts("san.uri", spec.uris, lambda facts: facts.uris),
        _extensions,
        _usages(spec.usages),
    ]
    if spec.keys:
        checks.append(_keys(spec.keys))
    if spec.expiration_seconds is not None:
        checks.append(_expiration(spec.expiration_seconds))
    checks += _record_checks(spec)
    return checks


def count_patterns(spec: CertificateRequestPolicySpec) -> int:
    """How many a name may have to be held against, all lists together."""
    subject = () if spec.subject is None else (getattr(spec.subject, each) for each in spec.subject.__struct_fields__)
    lists = (*subject, spec.dns_names, spec.ip_addresses, spec.email_addresses, spec.uris)
    return sum(len(_lists(each)) for each in lists if each is not None)


def record_needs(spec: CertificateRequestPolicySpec) -> RecordNeeds:
    return RecordNeeds(
        key=spec.fresh_key,
        periods=frozenset() if spec.rate is None else frozenset({spec.rate.period_seconds}),
        certificates=spec.certificates_per_node is not None,
        holders=spec.unique_names,
    )


def node_of(facts: RequestFacts) -> str:
    """The node that the request is for, or else the one that it comes from."""
    return node_name_of(facts.subject.common_name) or node_name_of(facts.username)


def names_of(facts: RequestFacts) -> tuple[str, ...]:
    """Every name that a certificate would have, each once."""
    every = (facts.subject.common_name, *facts.dns_names, *facts.ip_addresses, *facts.email_addresses, *facts.uris)
    return tuple(dict.fromkeys(each for each in every if each))


# ------------------------------------------------------------------ what may be there


def patterns_of(texts: Sequence[str], where: str, kind: Kind = Kind.TEXT, *, wildcards: bool = False) -> Patterns:
    """Raises :class:`PolicyFault`."""
    try:
        return Patterns(texts, kind, wildcards=wildcards)
    except PatternError as err:
        raise PolicyFault(f"{where}: {err}") from err


def _subject_check(field: str, allowed: AllowedTexts | None) -> Check:
    def values(facts: RequestFacts) -> Sequence[str]:
        found = getattr(facts.subject, field)
        return ((found,) if found else ()) if isinstance(found, str) else found

    return _texts(f"subject.{_WIRE_NAMES[field]}", allowed, values, is_identity=field in _IDENTITIES)


def is_written_out(value: str, patterns: Sequence[str]) -> bool:
    """Whether a pattern names a user or a group that belongs to Kubernetes, and no wildcard merely covers it.

    ``system:kube-scheduler`` and ``system:masters`` have to be there to the letter. Of names with three parts and more
    the last may be a wildcard: ``system:node:*``, ``system:serviceaccount:team-a:*``.
    """
    if not is_reserved(value) or value in patterns:
        return True
    parents, _, _ = value.rpartition(":")
    if ":" not in parents:
        return False
    return Patterns(each for each in patterns if each.partition("*")[0].startswith(f"{parents}:")).permit(value)


def is_reserved(value: str) -> bool:
    """Whether it is a name that Kubernetes has given a meaning to."""
    return value.startswith(_RESERVED)


_IDENTITIES = ("common_name", "organizations")
"""What of a subject is a user and groups to Kubernetes."""
_RESERVED = ("system:", "kubeadm:")
"""What the names of Kubernetes' own users and groups, administrators' among them, begin with."""
_WIRE_NAMES = {each.name: each.encode_name for each in msgspec.structs.fields(AllowedSubject)}


def _texts(
    rule: str,
    allowed: AllowedTexts | None,
    values: Callable[[RequestFacts], Sequence[str]],
    kind: Kind = Kind.TEXT,
    *,
    is_identity: bool = False,
) -> Check:
    patterns = None if allowed is None else patterns_of(allowed.patterns, rule, kind)

    def fault(value: str) -> str:
        assert patterns is not None
        if not patterns.permit(value):
            return _one_of(patterns.texts)
        # What is not named to the letter has to be what everybody reads as the same.
        if value not in patterns.texts and (not _PRINTABLE.fullmatch(value) or _EVASIVE.search(value)):
            return "plain ASCII, without what readers of paths take away"
        return ""

    def is_covered_only(value: str) -> bool:
        assert patterns is not None
        return is_identity and not is_written_out(value, patterns.texts)

    return _listed(rule, values, allowed, None if allowed is None else fault, is_covered_only)


def _hosts(allowed: AllowedHosts | None) -> Check:
    rule = "san.dns"
    wild = allowed is not None and allowed.wildcards
    patterns = None if allowed is None else patterns_of(allowed.patterns, rule, Kind.DNS, wildcards=wild)

    def fault(name: str) -> str:
        assert patterns is not None
        plain = name.removeprefix("*.") if wild else name
        if len(name) > _MAX_HOST or not _HOST.fullmatch(plain):
            return "the name of a host" if wild or "*" not in name else "the name of a host, as wildcards is not set"
        return "" if patterns.permit(name) else _one_of(patterns.texts)

    return _listed(rule, lambda facts: facts.dns_names, allowed, None if allowed is None else fault)


def _addresses(allowed: AllowedAddresses | None) -> Check:
    rule = "san.ip"
    try:
        networks = [ipaddress.ip_network(each, strict=False) for each in (allowed.networks if allowed else ())]
    except ValueError as err:
        raise PolicyFault(f"spec.ipAddresses.networks: {err}") from err
    texts = tuple(map(str, networks))

    def fault(text: str) -> str:
        address = ipaddress.ip_address(text)
        if not any(_has(network, address) for network in networks):
            return _one_of(texts)
        return ""

    return _listed(rule, lambda facts: facts.ip_addresses, allowed, None if allowed is None else fault)


def _has(network: ipaddress.IPv4Network | ipaddress.IPv6Network, address: Any) -> bool:
    """Of addresses that are every machine's own only where the network is one of such addresses."""
    if address not in network:
        return False
    return all(
        getattr(network, special)
        for special in ("is_loopback", "is_link_local", "is_multicast", "is_unspecified")
        if getattr(address, special)
    )


def _listed(
    rule: str,
    values: Callable[[RequestFacts], Sequence[str]],
    allowed: AllowedTexts | AllowedHosts | AllowedAddresses | None,
    fault: Callable[[str], str] | None,
    is_covered_only: Callable[[str], bool] = lambda _: False,
) -> Check:
    """``is_covered_only``: the value is another's name, which wildcards do not approve and do not deny."""
    if allowed is not None and allowed.required and not _lists(allowed):
        raise PolicyFault(f"{rule} is required, and nothing is allowed")

    def check(facts: RequestFacts, _: Records) -> Iterator[Step]:
        found = values(facts)
        if allowed is None or fault is None:
            if found:
                yield Step(rule, StepResult.SKIPPED, _shown(found), "a policy that says something of it")
            return
        for value in found:
            expected = fault(value)
            if expected:
                yield Step(rule, StepResult.UNMET, value, expected)
                return
        covered = next(filter(is_covered_only, found), None)
        if covered is not None:
            yield Step(rule, StepResult.SKIPPED, covered, "a pattern that writes it out")
            return
        if found:
            yield Step(rule, StepResult.MET, _shown(found), _one_of(_lists(allowed)))
        elif allowed.required:
            yield Step(rule, StepResult.UNMET, "none", _one_of(_lists(allowed)))

    return check


def _lists(allowed: AllowedTexts | AllowedHosts | AllowedAddresses) -> Sequence[str]:
    return allowed.networks if isinstance(allowed, AllowedAddresses) else allowed.patterns


def _extensions(facts: RequestFacts, _: Records) -> Iterator[Step]:
    if facts.is_ca:
        yield Step("x509.isCA", StepResult.SKIPPED, "the certificate of a CA", "no policy approves that")
    for kind, found in (
        ("x509.extensions", [each for each in facts.extensions if each not in _HARMLESS]),
        ("subject", facts.subject.unknown),
    ):
        if found:
            yield Step(kind, StepResult.SKIPPED, _shown(found), "what certificates are given")


def _usages(allowed: Sequence[str]) -> Check:
    def check(facts: RequestFacts, _: Records) -> Iterator[Step]:
        if not allowed:
            return
        extra = [each for each in facts.usages if each not in allowed]
        result = StepResult.UNMET if extra else StepResult.MET
        yield Step("usages", result, _shown(extra or facts.usages), _one_of(allowed))

    return check


def _keys(allowed: Sequence[AllowedKey]) -> Check:
    for number, each in enumerate(allowed):
        where = f"spec.keys[{number}]"
        if each.min_bits is not None and each.max_bits is not None and each.min_bits > each.max_bits:
            raise PolicyFault(f"{where}: minBits {each.min_bits} is more than maxBits {each.max_bits}")
        if each.algorithm in _SIZELESS and (each.min_bits is not None or each.max_bits is not None):
            raise PolicyFault(f"{where}: keys of {each.algorithm} have one size")
    expected = _one_of([_key_text(each.algorithm, each.min_bits, each.max_bits) for each in allowed])

    def check(facts: RequestFacts, _: Records) -> Iterator[Step]:
        fits = any(
            each.algorithm == facts.key_algorithm
            and (each.min_bits is None or facts.key_bits >= each.min_bits)
            and (each.max_bits is None or facts.key_bits <= each.max_bits)
            for each in allowed
        )
        got = facts.key_algorithm + (f" {facts.key_bits}" if facts.key_bits else "")
        yield Step("key", StepResult.MET if fits else StepResult.UNMET, got, expected)

    return check


def _key_text(algorithm: str, least: int | None, most: int | None) -> str:
    return algorithm + (f" from {least} bits" if least else "") + (f" to {most} bits" if most else "")


def _expiration(bounds: ExpirationBounds) -> Check:
    least, most = bounds.minimum, bounds.maximum
    if least is not None and most is not None and least > most:
        raise PolicyFault(f"spec.expirationSeconds: minimum {least} is more than maximum {most}")
    told = " and ".join(
        f"{word} {bound} s ({dt.timedelta(seconds=bound)})"
        for word, bound in (("at least", least), ("at most", most))
        if bound is not None
    )

    def check(facts: RequestFacts, _: Records) -> Iterator[Step]:
        asked = facts.expiration_seconds
        if asked is None:
            yield Step("expirationSeconds", StepResult.UNMET, "not set, which leaves it to the signer", told)
            return
        fits = (least is None or asked >= least) and (most is None or asked <= most)
        yield Step("expirationSeconds", StepResult.MET if fits else StepResult.UNMET, f"{asked} s", told)

    return check


# ------------------------------------------------------------------ what was issued before


def _record_checks(spec: CertificateRequestPolicySpec) -> Iterator[Check]:
    if spec.fresh_key:
        yield _recorded("freshKey", _fresh_key)
    if spec.rate is not None:
        period, most = spec.rate.period_seconds, spec.rate.requests

        def rate(_: RequestFacts, records: Records) -> Step:
            count = records.approved.get(period, 0)
            result = StepResult.MET if count < most else StepResult.UNKNOWN
            return Step("rate", result, f"{count} approved in {period} s", f"fewer than {most}")

        yield _recorded("rate", rate)
    if spec.certificates_per_node is not None:
        bound = spec.certificates_per_node

        def certificates(facts: RequestFacts, records: Records) -> Step:
            node, count = node_of(facts), records.certificates
            if not node:
                return Step("certificatesPerNode", StepResult.MET, "no node's", f"fewer than {bound}")
            result = StepResult.MET if count < bound else StepResult.UNKNOWN
            return Step("certificatesPerNode", result, f"{node} has {count}", f"fewer than {bound}")

        yield _recorded("certificatesPerNode", certificates)
    if spec.unique_names:
        yield _recorded("uniqueNames", _unique_names)


def _recorded(rule: str, look: Callable[[RequestFacts, Records], Step]) -> Check:
    def check(facts: RequestFacts, records: Records) -> Iterator[Step]:
        if records.fault:
            yield Step(rule, StepResult.ERROR, records.fault, "a record of what was issued")
        else:
            yield look(facts, records)

    return check


def _fresh_key(facts: RequestFacts, records: Records) -> Step:
    expected = "a key that no certificate has had"
    if records.key:
        return Step("freshKey", StepResult.UNMET, records.key, expected)
    if records.key_waits:
        return Step("freshKey", StepResult.UNKNOWN, records.key_waits, expected)
    return Step("freshKey", StepResult.MET, facts.key_fingerprint, expected)


def _unique_names(facts: RequestFacts, records: Records) -> Step:
    names, expected = names_of(facts), "names that nobody else has"
    if len(names) > MAX_NAMES:
        return Step("uniqueNames", StepResult.ERROR, f"{len(names)} names", f"at most {MAX_NAMES}")
    held = next(((name, records.holders[name]) for name in names if name in records.holders), None)
    if held is not None:
        return Step("uniqueNames", StepResult.UNKNOWN, f"{held[0]}: {held[1]}", expected)
    wild = next((name for name in names if "*" in name), None)
    if wild is not None:
        # Records find a certificate by its whole name.
        return Step("uniqueNames", StepResult.UNKNOWN, f"{wild}: who has a name under it is not known", expected)
    return Step("uniqueNames", StepResult.MET, _shown(names), expected)


def _shown(values: Sequence[str]) -> str:
    more = f" and {len(values) - _SHOWN} more" if len(values) > _SHOWN else ""
    return ", ".join(values[:_SHOWN]) + more


def _one_of(values: Sequence[str]) -> str:
    if not values:
        return "none"
    return _shown(values) if len(values) == 1 else f"one of {_shown(values)}"
