"""What a list of RBAC rules allows.

Source: pkg/apis/rbac/v1/evaluation_helpers.go (Kubernetes 1.36).
"""

from __future__ import annotations

from collections.abc import Iterable

from kubevouch.api.rbac_v1 import ALL, PolicyRule

# The names that a rule is limited to; None is every name.
_Names = frozenset[str] | None


class CompiledRules:
    """Rules turned into tables, so that the cost of a question does not depend on how many there are."""

    __slots__ = ("_prefixes", "_resources", "_urls", "rules")

    def __init__(self, rules: Iterable[PolicyRule]) -> None:
        self.rules = tuple(rules)
        self._resources: dict[str, dict[tuple[str, str], tuple[_Names, ...]]] = {}
        self._urls: dict[str, set[str]] = {}
        self._prefixes: dict[str, tuple[str, ...]] = {}
        for rule in self.rules:
            for verb in rule.verbs or ():
                self._add_resources(verb, rule)
                self._add_urls(verb, rule.non_resource_urls)

    def _add_resources(self, verb: str, rule: PolicyRule) -> None:
        names = frozenset(rule.resource_names) if rule.resource_names else None
        for group in rule.api_groups:
            for resource in rule.resources:
                table = self._resources.setdefault(verb, {})
                known = table.get((group, resource), ())
                if None not in known:
                    table[group, resource] = (None,) if names is None else (*known, names)

    def _add_urls(self, verb: str, urls: Iterable[str]) -> None:
        for url in urls:
            self._urls.setdefault(verb, set()).add(url)
            if url.endswith("*"):
                prefix = url.rstrip("*")
                self._prefixes[verb] = (*self._prefixes.get(verb, ()), prefix)

    def allows_resource(self, verb: str, group: str, resource: str, subresource: str, name: str) -> bool:
        """``res`` in a rule does not cover ``res/sub``; ``*/sub`` does, and so does ``*``. Names do not glob."""
        for table in (self._resources.get(verb), self._resources.get(ALL)):
            if table is None:
                continue
            wanted = (f"{resource}/{subresource}", f"*/{subresource}", ALL) if subresource else (resource, ALL)
            for each in wanted:
                for names in (*table.get((group, each), ()), *table.get((ALL, each), ())):
                    if names is None or name in names:
                        return True
        return False

    def allows_url(self, verb: str, path: str) -> bool:
        """A final ``*`` in a rule stands for any rest, and for nothing in the middle."""
        for each in (verb, ALL):
            if path in self._urls.get(each, ()) or path.startswith(self._prefixes.get(each, ())):
                return True
        return False
