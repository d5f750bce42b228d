"""Whether a kubelet may have the serving certificate that it asks for: every name and address by a source of its own.

Kubernetes leaves this to people, who approve everything in a loop. What stands against a node that lies is that it may
write its own ``status.addresses``: what a node says of itself never makes it the API server, another node, a Service or
this very machine (the attacks and which source counts alone: docs/adr/0022-*.md).

A contradiction is denied. What no source knows yet waits, for sources change.
"""

from __future__ import annotations

import datetime as dt
import ipaddress
from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum

import msgspec

from kubevouch import wellknown
from kubevouch.machinery.text import names
from kubevouch.machinery.text.gotext import quote
from kubevouch.pki import rotation
from kubevouch.pki.node_user import node_name_of
from kubevouch.pki.policy import rules_signer
from kubevouch.pki.x509.subject_alt_names import IPAddress, canonical
from kubevouch.pki.x509.usages import DIGITAL_SIGNATURE, KEY_ENCIPHERMENT, SERVER_AUTH
from kubevouch.policy.facts import RequestFacts, SubjectFacts
from kubevouch.policy.verdict import Outcome, Step, StepResult, Verdict, cut

APPROVER = "kubelet-serving"
APPROVED_REASON = "AutoApproved"
IDENTITY_REASON = "NotThisNode"
FORBIDDEN_REASON = "ForbiddenName"
TAKEN_REASON = "AddressOfAnotherNode"
STALE_REASON = "StaleAddresses"
"""Of a denial after which a kubelet asks anew within seconds, for what its Node reports now."""
WAITING_REASON = "NotJustified"

PATIENCE = dt.timedelta(minutes=2)
"""How long a request waits for its Node to report what is in it; a kubelet asks for what is reported already."""

MAX_NAMES = 100
"""Names and addresses of a request that is judged; kubelets have a handful."""

MAX_SAID = 16
"""IP addresses of a request that only the node itself says it has: more keep whoever gets them next out."""

Network = ipaddress.IPv4Network | ipaddress.IPv6Network

_USAGES = frozenset({DIGITAL_SIGNATURE, SERVER_AUTH})
# Where clouds answer instances with their credentials; the rest of them are link-local. AWS, Alibaba, Azure, Oracle.
_METADATA = frozenset(
    map(ipaddress.ip_address, ("169.254.169.254", "fd00:ec2::254", "100.100.100.200", "168.63.129.16", "192.0.0.192"))
)
_THIS_NETWORK = ipaddress.ip_network("0.0.0.0/8")  # RFC 1122 section 3.2.1.3
# RFC 6052, RFC 8215, RFC 4291 section 2.5.5.1: where an IPv4 address is the end of an IPv6 one.
# RFC 7915 (SIIT; RFC 2765): IPv4-translated ones.
_EMBEDDING = tuple(map(ipaddress.IPv6Network, ("64:ff9b::/96", "64:ff9b:1::/48", "::/96", "::ffff:0:0:0/96")))
_LOCAL = "localhost"
# In /etc/hosts of Fedora's and Debian's kin.
_LOCAL_NAMES = frozenset(
    ("localhost.localdomain", "localhost4", "localhost4.localdomain4", "localhost6", "localhost6.localdomain6")
) | {"ip6-localhost", "ip6-loopback"}
_METADATA_NAMES = frozenset({"metadata.google.internal", "metadata.goog", "instance-data.ec2.internal"})
_SERVICES = "svc"
# What "kubernetes" is looked up as from a pod (pkg/controlplane: the API server's own names).
_API_SERVICE = frozenset({"kubernetes", "kubernetes.default"})
_ENCODED = "xn--"


class Source(StrEnum):
    """What justifies a name or an address, in the order in which they are asked."""

    IDENTITY = "identity"
    NODE = "node-addresses"
    CONTROL_PLANE = "control-plane-label"
    MACHINE = "machine"
    CONNECTION = "source-address"
    LAST = "last-certificate"
    NETWORKS = "networks"
    DOMAINS = "domains"
    DNS = "dns"


class ServingRules(msgspec.Struct, frozen=True, kw_only=True):
    """What is declared.

    Args:
        networks: where kubelets serve. An address there counts by itself; outside of them a node's own word does not.
        domains: under which nodes have names; outside of them a node's own word counts for no name but its own.
        api_server: names and addresses under which API servers are reached, as :func:`normalized` has them.
        service_ranges: addresses of Services.
        cluster_domains: under which Services have names.
        source_is_told: the API server itself writes down from where a request came, and lets nobody else.
    """

    networks: tuple[Network, ...] = ()
    domains: tuple[str, ...] = ()
    api_server: frozenset[str] = frozenset()
    service_ranges: tuple[Network, ...] = ()
    cluster_domains: tuple[str, ...] = ("cluster.local",)
    source_is_told: bool = False


class Rival(msgspec.Struct, frozen=True):
    """Another Node to which a name or an address seems to belong.

    Args:
        by: how, :data:`Source.IDENTITY` if it is its name.
        holds: it has a valid serving certificate with it.
    """

    node: str
    by: Source
    holds: bool = False


class Known(msgspec.Struct, frozen=True, kw_only=True):
    """What the sources know of one node; names and addresses as :func:`normalized` has them.

    Args:
        reported: type and address of each address of its Node, as they stand there; None without a Node.
        control_plane: its Node has the label of control planes, which no node may give itself (NodeRestriction).
        of_machine: what the object has that says which machine this is.
        source: from where the request came; empty where that is not known, or is known of requests for other nodes too.
        last: what its newest serving certificate has, if that is valid.
        rivals: by name or address.
        dropped: what its Node has ceased to report since it asked.
        changed: its Node reports something else than when it asked, or it has waited for :data:`PATIENCE`.
        told: a request for just these names was denied as stale already.
        resolved: by name its addresses and by address its names, as the resolver has them; None if it was not asked.
    """

    reported: tuple[tuple[str, str], ...] | None = None
    control_plane: bool = False
    of_machine: frozenset[str] = frozenset()
    source: str = ""
    last: frozenset[str] = frozenset()
    rivals: Mapping[str, Rival] = {}
    dropped: frozenset[str] = frozenset()
    changed: bool = False
    told: bool = False
    resolved: Mapping[str, frozenset[str]] | None = None


def normalized(text: str) -> str:
    """One text for each name and address: addresses as certificates have them, names in lower case with no last dot."""
    try:
        return str(canonical(ipaddress.ip_address(text)))
    except ValueError:
        return text.lower().removesuffix(".")


def wanted_names(facts: RequestFacts) -> tuple[str, ...]:
    """What is asked for, DNS names first, each as :func:`normalized` has it."""
    return (*(name.lower() for name in facts.dns_names), *map(normalized, facts.ip_addresses))


def reported_names(addresses: Iterable[tuple[str, str]]) -> frozenset[str]:
    """What a kubelet makes of its Node's addresses (``certificate/kubelet.go``), also before it has an IP address."""
    found = rotation.serving_names(addresses, allow_dns_only=True)
    return (
        frozenset() if found is None else frozenset(map(normalized, (*found.dns_names, *map(str, found.ip_addresses))))
    )


def node_of(facts: RequestFacts) -> str:
    """The node that asks for a serving certificate; empty if it is no node, or asks another signer."""
    return node_name_of(facts.username) if _is_serving(facts) else ""


def _is_serving(facts: RequestFacts) -> bool:
    return rules_signer(facts.signer_name) == wellknown.KUBELET_SERVING_SIGNER


def decide(facts: RequestFacts, known: Known, rules: ServingRules) -> Verdict:
    """What is to be done with a request for a certificate of ``kubernetes.io/kubelet-serving`` or an attested twin.

    Others get no opinion without a trace.
    """
    if not _is_serving(facts):
        return Verdict(Outcome.NO_OPINION, APPROVER)
    # 1. Who asks, and as whom.
    identity = _identity(facts)
    trouble = next((step for step in identity if step.result != StepResult.MET), None)
    if trouble is not None:
        if trouble.result == StepResult.UNMET:
            message = f"{facts.username} asked for {trouble.got}; a node gets a certificate for itself only"
            return _verdict(Outcome.DENY, IDENTITY_REASON, identity, message=message)
        missing = f"{trouble.rule}: got {trouble.got}, expected {trouble.expected}"
        return _verdict(Outcome.NO_OPINION, WAITING_REASON, identity, missing=missing)
    # 2. Each name and each address by itself.
    judged = _Judge(facts, known, rules)
    steps = (*identity, *judged.steps())
    denied = next((step for step in steps if step.result == StepResult.UNMET), None)
    if denied is not None:
        return _verdict(Outcome.DENY, judged.reason_of(denied), steps, message=f"{denied.rule}: {denied.got}")
    open_steps = [step for step in steps if step.result != StepResult.MET]
    if not open_steps:
        sources = ", ".join(dict.fromkeys(step.by for step in steps if step.by))
        message = f"Auto approving kubelet serving certificate: every name and address is justified by {sources}."
        return _verdict(Outcome.APPROVE, APPROVED_REASON, steps, message=message)
    # 3. What can never become right, for the node asks for other names by now.
    stale = judged.stale(open_steps)
    if stale:
        return _verdict(Outcome.DENY, STALE_REASON, steps, message=stale)
    first = open_steps[0]
    # Of time nobody tells.
    retry = judged.may_become_stale(open_steps)
    more = f" (and {len(open_steps) - 1} more)" if len(open_steps) > 1 else ""
    missing = f"{first.rule}: {first.got}; expected {first.expected}{more}"
    return _verdict(Outcome.NO_OPINION, WAITING_REASON, steps, missing=missing, retry=retry)


def _verdict(
    outcome: Outcome, reason: str, steps: Iterable[Step], *, message: str = "", missing: str = "", retry: bool = False
) -> Verdict:
    return Verdict(outcome, APPROVER, reason, message, missing, tuple(steps), retry)


def _identity(facts: RequestFacts) -> tuple[Step, ...]:
    node = node_name_of(facts.username)
    is_node = bool(node) and wellknown.NODES_GROUP in facts.groups
    requester = Step(
        "requester", StepResult.MET if is_node else StepResult.UNKNOWN, quote(facts.username),
        "" if is_node else "the node itself; a person has to approve what others ask for",
    )  # fmt: skip
    if not is_node:
        return (requester,)
    subject = facts.subject
    if subject.common_name != facts.username:
        # Nothing that changes makes one node another.
        result = StepResult.UNMET if subject.common_name.startswith(wellknown.NODE_USER_PREFIX) else StepResult.UNKNOWN
        return (requester, Step("subject", result, quote(cut(subject.common_name, 300)), quote(facts.username)))
    return (requester, _subject(subject, facts.username), *_shape(facts))


def _subject(subject: SubjectFacts, username: str) -> Step:
    exact = SubjectFacts(common_name=username, organizations=(wellknown.NODES_GROUP,))
    expected = f"O={wellknown.NODES_GROUP}, CN={username} and nothing else"
    if subject == exact:
        return Step("subject", StepResult.MET, f"O={wellknown.NODES_GROUP}, CN={username}")
    return Step(
        "subject", StepResult.UNKNOWN, f"O={', '.join(subject.organizations)[:300]} or more attributes", expected
    )


def _shape(facts: RequestFacts) -> Iterator[Step]:
    """What the signer would refuse once it is approved (pkg/apis/certificates/helpers.go)."""
    if frozenset(facts.usages) - {KEY_ENCIPHERMENT} != _USAGES:
        yield Step("usages", StepResult.UNKNOWN, ", ".join(facts.usages)[:300], ", ".join(sorted(_USAGES)))
    if facts.email_addresses or facts.uris:
        yield Step("san", StepResult.UNKNOWN, "e-mail addresses or URIs", "DNS names and IP addresses")
    count = len(facts.dns_names) + len(facts.ip_addresses)
    if not count or count > MAX_NAMES:
        yield Step("san", StepResult.UNKNOWN, f"{count} names", f"1 to {MAX_NAMES} names and addresses")


class _Judge:
    def __init__(self, facts: RequestFacts, known: Known, rules: ServingRules) -> None:
        self._facts = facts
        self._known = known
        self._rules = rules
        self._node = node_name_of(facts.username)
        self._reported = reported_names(known.reported or ())
        self._reasons: dict[Step, str] = {}
        self._unsettled: set[Step] = set()
        # What each step is about.
        self._keys: dict[Step, str] = {}

    def steps(self) -> Iterator[Step]:
        addresses = {normalized(text): self._address(text) for text in self._facts.ip_addresses}
        if not self._rules.networks:
            said = {key: step for key, step in addresses.items() if step.by == Source.NODE}
            # A certificate that it has says so, too, if it has them all: else a few at a time became many.
            if len(said) > MAX_SAID and not said.keys() <= self._known.last:
                why = f"only the node itself says so, of {len(said)} addresses; more than {MAX_SAID} are not believed"
                addresses |= {key: self._unknown(step.rule, why) for key, step in said.items()}
        judged = [(name.lower(), self._name(name)) for name in self._facts.dns_names]
        for key, step in (*judged, *addresses.items()):
            settled = self._resolved(step, key, addresses)
            self._keys[settled] = key
            yield settled

    def reason_of(self, step: Step) -> str:
        return self._reasons[step]

    def stale(self, open_steps: Iterable[Step]) -> str:
        """Why a kubelet would ask for other names by now, as a sentence; empty if it would not, or was told."""
        if not self.may_become_stale(open_steps):
            return ""
        gone = sorted(self._unreported(open_steps) & self._known.dropped)
        if gone:
            return f"the Node does not report {', '.join(gone)} any more; the kubelet asks anew for what it reports now"
        added = sorted(self._reported - set(wanted_names(self._facts)))
        if not added or not self._known.changed:
            return ""
        first = next(iter(open_steps)).rule
        return f"{first} is not justified, and the Node reports {', '.join(added)} by now; the kubelet asks anew"

    def may_become_stale(self, open_steps: Iterable[Step]) -> bool:
        """Whether asking anew would help: the kubelet would leave out what is not justified, and ask for something.

        Whoever declares more names than its Node has lacks none that it reports, and would ask for the same again.
        """
        unreported = self._unreported(open_steps)
        if self._known.told or not rotation.serving_names(self._known.reported or ()):
            return False
        lacks = bool(self._reported - set(wanted_names(self._facts)))
        return bool(unreported & self._known.dropped) or (bool(unreported) and lacks)

    def _unreported(self, open_steps: Iterable[Step]) -> set[str]:
        return {self._keys[step] for step in open_steps} - self._reported

    # -------------------------------------------------------------- names

    def _name(self, name: str) -> Step:
        key, rule = name.lower(), f"san.dns {_shown(name)}"
        why = forbidden_name(key, self._rules)
        if why:
            return self._deny(rule, FORBIDDEN_REASON, why)
        own = begins_with(key, self._node)
        rival = self._known.rivals.get(key)
        if key in self._known.of_machine and (rival is None or rival.by is not Source.MACHINE):
            return Step(rule, StepResult.MET, by=Source.MACHINE)
        # By a wildcard, too (RFC 6125 section 6.4.3: for one label).
        if not self._rules.api_server.isdisjoint((key, f"*.{key.partition('.')[2]}")):
            return self._of_api_server(rule, key)
        if rival is not None:
            return self._contested(rule, key, rival)
        if key == self._node:
            return Step(rule, StepResult.MET, by=Source.IDENTITY)
        in_domain = any(_is_under(key, domain) for domain in self._rules.domains)
        labels = key.split(".")
        # From a pod, vault.prod is the Service vault of the namespace prod.
        like_service = len(labels) == 2 and not in_domain
        if key in self._reported and (own or self._is_short_of_own(key)) and not like_service:
            return Step(rule, StepResult.MET, by=Source.NODE)
        # A name of one label is, or will be, another machine's; what an encoded one looks like, nobody reads.
        plain = len(labels) > 1 and not like_service and not any(label.startswith(_ENCODED) for label in labels)
        if key in self._reported and plain and (in_domain or not self._rules.domains):
            return Step(rule, StepResult.MET, by=Source.NODE)
        if key in self._known.last:
            return Step(rule, StepResult.MET, by=Source.LAST)
        if own and in_domain:
            return Step(rule, StepResult.MET, by=Source.DOMAINS)
        if key not in self._reported:
            return self._unknown(rule, "no source knows it")
        if like_service:
            return self._unknown(rule, "only the node itself says so, and from a pod it could be a Service's name")
        if plain:
            return self._unknown(rule, "only the node itself says so, and it is in none of the declared domains")
        return self._unknown(rule, "only the node itself says so, and it could be another machine's name")

    def _is_short_of_own(self, key: str) -> bool:
        return self._node.partition(".")[0] == key

    # -------------------------------------------------------------- addresses

    def _address(self, text: str) -> Step:
        key, rule = normalized(text), f"san.ip {text}"
        address = ipaddress.ip_address(key)
        why = forbidden_address(address, self._rules)
        if why:
            return self._deny(rule, FORBIDDEN_REASON, why)
        rival = self._known.rivals.get(key)
        if key in self._known.of_machine and (rival is None or rival.by is not Source.MACHINE):
            return Step(rule, StepResult.MET, by=Source.MACHINE)
        if any(str(each) in self._rules.api_server for each in _meanings(address)):
            return self._of_api_server(rule, key)
        if rival is not None:
            return self._contested(rule, key, rival)
        in_network = _is_in(address, self._rules.networks)
        if key in self._reported and (in_network or not self._rules.networks):
            return Step(rule, StepResult.MET, by=Source.NODE)
        if key == self._known.source:
            return Step(rule, StepResult.MET, by=Source.CONNECTION)
        if key in self._known.last:
            return Step(rule, StepResult.MET, by=Source.LAST)
        if in_network:
            return Step(rule, StepResult.MET, by=Source.NETWORKS)
        if key in self._reported:
            return self._unknown(rule, "only the node itself says so, and it is in none of the declared networks")
        return self._unknown(rule, "no source knows it")

    # -------------------------------------------------------------- both

    def _of_api_server(self, rule: str, key: str) -> Step:
        """Whoever has a certificate with it can be an API server: no word of the node's own counts, nor that it once
        got one, for an API server may have moved there since."""
        if self._known.control_plane and (key in self._reported or key == self._node) and key not in self._known.rivals:
            return Step(rule, StepResult.MET, by=Source.CONTROL_PLANE)
        return Step(
            rule,
            StepResult.UNKNOWN,
            "an API server is reached there",
            f"a Node with the label {wellknown.CONTROL_PLANE_LABEL}, a Machine with it, or a person who approves",
        )

    def _contested(self, rule: str, key: str, rival: Rival) -> Step:
        """What another Node seems to have. Both may lie; a certificate that is out decides, then the connection."""
        whose = f"it belongs to node {rival.node} (by {rival.by})"
        if rival.by is Source.IDENTITY and not rival.holds and key in self._known.last and key in self._reported:
            # Whoever joins chooses a name: a node that has a certificate for it is not turned away for that.
            expected = f"that no other Node is called {rival.node}, or a person who approves"
            return Step(rule, StepResult.UNKNOWN, f"node {rival.node} is called so", expected)
        if rival.by is not Source.NODE or rival.holds or key not in self._reported:
            return self._deny(rule, TAKEN_REASON, whose)
        if key in self._known.last:
            return Step(rule, StepResult.MET, by=Source.LAST)
        if key == self._known.source:
            return Step(rule, StepResult.MET, by=Source.CONNECTION)
        expected = "that only one Node has it, or a person who approves"
        return Step(rule, StepResult.UNKNOWN, f"node {rival.node} seems to have it too", expected)

    def _resolved(self, step: Step, key: str, addresses: Mapping[str, Step]) -> Step:
        """What the resolver adds to a step that no other source has settled. Nothing where anything speaks against it:
        neither an API server nor another Node gives way to it."""
        resolved = self._known.resolved
        if resolved is None or step not in self._unsettled:
            return step
        found = resolved.get(key, frozenset())
        if key in addresses:
            # There and back: whoever holds the reverse zone only may write any name into it.
            met = any(begins_with(name, self._node) and key in resolved.get(name, ()) for name in found)
        else:
            settled = {each for each, by in addresses.items() if by.result == StepResult.MET}
            met = bool(found) and found <= settled
        return Step(step.rule, StepResult.MET, by=Source.DNS) if met else step

    def _deny(self, rule: str, reason: str, why: str) -> Step:
        step = Step(rule, StepResult.UNMET, why)
        self._reasons[step] = reason
        return step

    def _unknown(self, rule: str, why: str) -> Step:
        step = Step(rule, StepResult.UNKNOWN, why, "an address of its Node, or another source that knows it")
        self._unsettled.add(step)
        return step


def forbidden_name(key: str, rules: ServingRules) -> str:
    """Why no node may be called so, as a clause; empty if one may."""
    if not key.isascii() or names.subdomain(key):
        return "it is no DNS name that a node can have"
    labels = key.split(".")
    if labels[-1].isdigit() or labels[-1].startswith("0x"):
        # Clients that look for an address among the names would find it; in URLs 0x7f.1 is one, too.
        return "it reads as an IP address"
    if labels[-1] == _LOCAL or key in _LOCAL_NAMES:
        return "it is every machine's own"
    if key in _METADATA_NAMES:
        return "a cloud's metadata service answers there"
    under = any(_is_under(key, domain) for domain in rules.cluster_domains)
    if key in _API_SERVICE or labels[-1] == _SERVICES or under:
        return "it is a name of the API server, of Services or of pods"
    return ""


def forbidden_address(address: IPAddress, rules: ServingRules) -> str:
    """Why no node may have the address, as a clause; empty if one may."""
    for each in _meanings(address):
        if each in _METADATA:
            return "a cloud's metadata service answers there"
        if each.is_loopback or each.is_link_local or each.is_unspecified or each.is_multicast:
            return "it is no machine's alone: loopback, link-local, unspecified or multicast"
        if each in _THIS_NETWORK or (each.version == 4 and each.is_reserved):
            return "no machine can have it"
        if _is_in(each, rules.service_ranges):
            return "it is in the range of Services"
    return ""


def meanings(key: str) -> tuple[str, ...]:
    """A name or an address as :func:`normalized` has it, and what translators on the way make of an address."""
    try:
        return tuple(str(canonical(each)) for each in _meanings(ipaddress.ip_address(key)))
    except ValueError:
        return (key,)


def _meanings(address: IPAddress) -> Iterator[IPAddress]:
    """The address, and the IPv4 address that a translator on the way makes of it."""
    yield address
    if isinstance(address, ipaddress.IPv4Address):
        return
    if address.sixtofour is not None:
        yield address.sixtofour
    if address.teredo is not None:
        yield from address.teredo
    if any(address in network for network in _EMBEDDING) and int(address) > 1:
        yield ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)


def _is_in(address: IPAddress, networks: Iterable[Network]) -> bool:
    return any(address.version == network.version and address in network for network in networks)


def _is_under(name: str, domain: str) -> bool:
    return name == domain or name.endswith(f".{domain}")


def begins_with(name: str, host: str) -> bool:
    """Whether ``name`` is ``host`` or that in some domain."""
    return name == host or name.startswith(f"{host}.")


def _shown(name: str) -> str:
    """A name as a message may hold it: whoever asks chooses its characters."""
    return cut(quote(name) if names.subdomain(name.lower()) else name, 300)
