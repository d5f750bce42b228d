"""What Kubernetes accepts as a name, a label, an annotation or a data key, and what it says of the rest.

Each function returns messages; none means that the text is accepted. The words are part of the wire
(k8s.io/apimachinery/pkg/api/validate/content, pkg/util/validation, pkg/api/validation; Kubernetes 1.36).
Lengths count UTF-8 bytes, whatever unit the message names.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache

# Called with a text and whether it is a prefix that gets random characters appended.
NameRule = Callable[[str, bool], list[str]]

_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = rf"{_LABEL}(\.{_LABEL})*"
_DNS_1035 = "[a-z]([-a-z0-9]*[a-z0-9])?"
_LABEL_KEY = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_LABEL_VALUE = f"({_LABEL_KEY})?"
_CONFIG_KEY = "[-._a-zA-Z0-9]+"
_CONDITION_REASON = "[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?"

_LONGEST_QUALIFIED_NAME = 253 + 1 + 63

_LABEL_RE = re.compile(_LABEL)
_DNS_1035_RE = re.compile(_DNS_1035)
_LABEL_KEY_RE = re.compile(_LABEL_KEY)
_CONFIG_KEY_RE = re.compile(_CONFIG_KEY)
_CONDITION_REASON_RE = re.compile(_CONDITION_REASON)

_NAME_CHARACTERS = (
    "consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character"
)


def _format_message(rule: str, pattern: str, *examples: str) -> str:
    # Kubernetes really writes two blanks before each "or".
    shown = " or ".join(f"'{example}', " for example in examples)
    return f"{rule} (e.g. {shown}regex used for validation is '{pattern}')"


_LABEL_MESSAGE = _format_message(
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with "
    "an alphanumeric character",
    _LABEL, "my-name", "123-abc",
)  # fmt: skip
_SUBDOMAIN_MESSAGE = _format_message(
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and "
    "end with an alphanumeric character",
    _SUBDOMAIN, "example.com",
)  # fmt: skip
_DNS_1035_MESSAGE = _format_message(
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, "
    "and end with an alphanumeric character",
    _DNS_1035, "my-name", "abc-123",
)  # fmt: skip
_LABEL_KEY_MESSAGE = _format_message(f"must {_NAME_CHARACTERS}", _LABEL_KEY, "MyName", "my.name", "123-abc")
_LABEL_VALUE_MESSAGE = _format_message(
    f"a valid label must be an empty string or {_NAME_CHARACTERS}", _LABEL_VALUE, "MyValue", "my_value", "12345"
)
_CONFIG_KEY_MESSAGE = _format_message(
    "a valid config key must consist of alphanumeric characters, '-', '_' or '.'",
    _CONFIG_KEY, "key.name", "KEY_NAME", "key-name",
)  # fmt: skip
_CONDITION_REASON_MESSAGE = _format_message(
    "a condition reason must start with alphabetic character, optionally followed by a string of alphanumeric "
    "characters or '_,:', and must end with an alphanumeric character or '_'",
    _CONDITION_REASON, "my_name", "MY_NAME", "MyName", "ReasonA,ReasonB", "ReasonA:ReasonB",
)  # fmt: skip

_EMPTY = "must be non-empty"


def _longer_than(text: str, limit: int) -> bool:
    return len(text) > limit or len(text.encode("utf-8", "surrogatepass")) > limit


def _is_subdomain(text: str) -> bool:
    # Label by label: the one expression for all of it would be the same, and slower.
    return all(_LABEL_RE.fullmatch(label) for label in text.split("."))


def dns_label(text: str) -> list[str]:
    """RFC 1123: what may stand between the dots of a host name."""
    messages = ["must be no more than 63 characters"] if _longer_than(text, 63) else []
    if not _LABEL_RE.fullmatch(text):
        messages.append("must not contain dots" if _is_subdomain(text) else _LABEL_MESSAGE)
    return messages


def subdomain(text: str) -> list[str]:
    """RFC 1123: labels joined by dots."""
    messages = ["must be no more than 253 characters"] if _longer_than(text, 253) else []
    if not _is_subdomain(text):
        messages.append(_SUBDOMAIN_MESSAGE)
    return messages


def dns_1035_label(text: str) -> list[str]:
    """RFC 1035: as a DNS label, but it starts with a letter."""
    messages = ["must be no more than 63 characters"] if _longer_than(text, 63) else []
    if not _DNS_1035_RE.fullmatch(text):
        messages.append(_DNS_1035_MESSAGE)
    return messages


def qualified_name(text: str) -> list[str]:
    """Label keys, annotation keys in lower case, finalizers, condition types."""
    # The same few keys come with every write.
    return [] if len(text) <= _LONGEST_QUALIFIED_NAME and _is_qualified(text) else _qualified_name_faults(text)


@lru_cache(maxsize=1024)
def _is_qualified(text: str) -> bool:
    return not _qualified_name_faults(text)


def _qualified_name_faults(text: str) -> list[str]:
    parts = text.split("/")
    if len(parts) > 2:
        suffix = "with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
        return [f"a valid label key {_LABEL_KEY_MESSAGE} {suffix}"]
    name = parts[-1]
    messages = []
    if len(parts) == 2:
        prefix = parts[0]
        messages = [f"prefix part {message}" for message in (subdomain(prefix) if prefix else [_EMPTY])]
    if not name:
        messages.append(f"name part {_EMPTY}")
    elif _longer_than(name, 63):
        messages.append("name part must be no more than 63 bytes")
    if not _LABEL_KEY_RE.fullmatch(name):
        messages.append(f"name part {_LABEL_KEY_MESSAGE}")
    return messages


def label_value(text: str) -> list[str]:
    messages = ["must be no more than 63 bytes"] if _longer_than(text, 63) else []
    if text and not _LABEL_KEY_RE.fullmatch(text):
        messages.append(_LABEL_VALUE_MESSAGE)
    return messages


def condition_reason(text: str) -> list[str]:
    return [] if _CONDITION_REASON_RE.fullmatch(text) else [_CONDITION_REASON_MESSAGE]


def config_map_key(text: str) -> list[str]:
    """The keys of a ConfigMap's or Secret's data."""
    messages = ["must be no more than 253 characters"] if _longer_than(text, 253) else []
    if not _CONFIG_KEY_RE.fullmatch(text):
        messages.append(_CONFIG_KEY_MESSAGE)
    if text in (".", ".."):
        messages.append(f"must not be '{text}'")
    elif text.startswith(".."):
        messages.append("must not start with '..'")
    return messages


# ------------------------------------------------------------------ rules for metadata.name


def _without_final_dash(text: str) -> str:
    """A prefix may end in a dash, which a random letter will follow."""
    return f"{text[:-2]}a" if len(text) > 1 and text.endswith("-") else text


def dns_label_name(text: str, prefix: bool) -> list[str]:
    """The name of a Namespace."""
    return dns_label(_without_final_dash(text) if prefix else text)


def subdomain_name(text: str, prefix: bool) -> list[str]:
    """The name of most kinds: Secret, ConfigMap, Node, Lease, ServiceAccount."""
    return subdomain(_without_final_dash(text) if prefix else text)


def dns_1035_name(text: str, prefix: bool) -> list[str]:
    """The name of a Service."""
    return dns_1035_label(_without_final_dash(text) if prefix else text)


def path_segment_name(text: str, prefix: bool) -> list[str]:
    """The name of a CertificateSigningRequest or an RBAC kind, and the least that is asked of every name.

    Kubernetes lets a NUL pass; no file, no argument of a program and no key of this server's store can hold one.
    """
    if not prefix and text in (".", ".."):
        return [f"may not be '{text}'"]
    return [f"may not contain {char!r}" for char in "/%\x00" if char in text]
