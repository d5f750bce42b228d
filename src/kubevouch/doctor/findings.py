"""What the doctor can find: the one table of codes.

``reference/findings.md`` of the manual is made from it. A code never changes its meaning.
"""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterable
from enum import Enum
from typing import Any

import msgspec
from msgspec.structs import replace

from kubevouch.util.manual import manual_folder

PAGE = "reference/findings.md"
SHOWN = 20

_NEW_TOKEN = "kubevouch token create --print-join-command"
_LIST_TOKENS = "kubevouch token list"
_SET_CLOCK = "timedatectl set-ntp true"
_PUBLISH = "kubevouch init phase cluster-info"
_JOIN_AGAIN = "kubevouch join HOST:PORT --token TOKEN --discovery-token-ca-cert-hash HASH"
START_AGENT = "systemctl restart kubevouch-agent"
_CONTROLLERS = "kubevouch up --controllers '*'"
_MANAGER_BOOTSTRAPS = "kube-controller-manager --controllers='*,bootstrapsigner,tokencleaner'"
_MANAGER_SIGNS = "kube-controller-manager --cluster-signing-cert-file=ca.crt --cluster-signing-key-file=ca.key"


def argument(name: str) -> str:
    """A name from the cluster as one argument of a command that a person will copy into a shell."""
    return f"-- {shlex.quote(name)}" if name.startswith("-") else shlex.quote(name)


class Area(Enum):
    """What a finding is about; the chapters of the reference."""

    SERVER = "The way to the API server"
    DISCOVERY = "Token and cluster-info"
    NODE = "The node's files and certificate"
    CLUSTER = "The cluster"


class Kind(msgspec.Struct, frozen=True):
    """One kind of finding.

    Args:
        meaning: what is the case, and why that matters, for the reference.
        fix: the command that helps as a rule; a finding may name a better one.
    """

    code: str
    area: Area
    meaning: str
    fix: str


class Finding(msgspec.Struct, frozen=True):
    """``cause`` is what was seen, in one line; ``fix`` is one command, or what to do where no command alone does it."""

    code: Code
    cause: str
    fix: str

    @property
    def fits_kubevouch_only(self) -> bool:
        return self.fix == _CONTROLLERS

    @property
    def docs(self) -> str:
        """The page and the chapter of the manual on this machine."""
        return f"{manual_folder() / PAGE}#{self.code.value.code}"

    def tree(self) -> dict[str, str]:
        """The stable form for scripts."""
        return {"code": self.code.value.code, "cause": self.cause, "fix": self.fix, "docs": self.docs}


class Report(msgspec.Struct, frozen=True):
    """``facts`` is what is right, or worth knowing, by name."""

    findings: tuple[Finding, ...] = ()
    facts: tuple[tuple[str, str], ...] = ()

    def tree(self) -> dict[str, Any]:
        return {
            "findings": [finding.tree() for finding in self.findings],
            "facts": [{"name": name, "text": text} for name, text in self.facts],
        }


class Code(Enum):
    """Every code. Build a finding with :meth:`found`."""

    # ------------------------------------------------------------------ the way to the API server
    ENDPOINT_MALFORMED = Kind(
        "endpoint-malformed", Area.SERVER, "The address is not HOST:PORT, so that there is nothing to ask.",
        "kubevouch doctor join 192.0.2.10:6443 --token TOKEN --discovery-token-ca-cert-hash HASH",
    )  # fmt: skip
    NAME_NOT_RESOLVED = Kind(
        "name-not-resolved", Area.SERVER, "This machine's DNS has no address for the API server's name.",
        "getent hosts NAME",
    )  # fmt: skip
    PORT_REFUSED = Kind(
        "port-refused", Area.SERVER,
        "The machine is there and nothing listens on the port: the API server does not run, or listens on another port "
        "(ss -ltnp on its machine), or a firewall rejects the connection.",
        "systemctl start kubevouch",
    )  # fmt: skip
    NO_ANSWER = Kind(
        "no-answer", Area.SERVER,
        "Nothing comes back from the address: a firewall drops the packets, there is no route, or the server hangs.",
        "firewall-cmd --add-port=PORT/tcp",
    )  # fmt: skip
    PLAIN_HTTP = Kind(
        "plain-http", Area.SERVER,
        "What listens there does not speak TLS, so it is another program: API servers speak nothing else.",
        "ss -ltnp sport = :PORT",
    )  # fmt: skip
    NOT_KUBERNETES = Kind(
        "not-kubernetes", Area.SERVER,
        "Something answers that is no API server: a web server, a load balancer without servers, a login page.",
        "ss -ltnp sport = :PORT",
    )  # fmt: skip
    PROXY_ANSWERS = Kind(
        "proxy-answers", Area.SERVER, "A proxy answers in the API server's place.",
        "curl -kv --noproxy '*' https://HOST:PORT/version",
    )  # fmt: skip
    PROXY_CAPTURES = Kind(
        "proxy-captures", Area.SERVER,
        "The environment sends HTTPS for the API server's address to a proxy. kubevouch goes past it; kubeadm, curl "
        "and whatever else runs with this environment do not.",
        'export NO_PROXY="$NO_PROXY,HOST"',
    )  # fmt: skip
    CLOCK_OFF = Kind(
        "clock-off", Area.SERVER,
        "The clocks of this machine and of the API server differ. Certificates seem expired or not yet valid, and "
        "tokens end at another time than was meant.",
        _SET_CLOCK,
    )  # fmt: skip
    SERVER_NOT_TRUSTED = Kind(
        "server-not-trusted", Area.SERVER,
        "The API server's certificate does not come from the CA that is trusted here: it is another cluster, the CA "
        "was changed, or something in between opens the connection.",
        "openssl s_client -connect HOST:PORT -showcerts",
    )  # fmt: skip
    SERVER_NAME_MISSING = Kind(
        "server-name-missing", Area.SERVER,
        "The API server's certificate is not for the name or address by which it is reached.",
        "kubevouch certs renew apiserver",
    )  # fmt: skip
    SERVING_CERTIFICATE_DATES = Kind(
        "serving-certificate-dates", Area.SERVER, "The API server's certificate has expired or is not yet valid.",
        "kubevouch certs renew apiserver",
    )  # fmt: skip
    SERVING_CERTIFICATE_EXPIRING = Kind(
        "serving-certificate-expiring", Area.SERVER, "The API server's certificate ends soon, and all clients with it.",
        "kubevouch certs renew apiserver",
    )  # fmt: skip
    ACCESS_REFUSED = Kind(
        "access-refused", Area.SERVER,
        "The API server does not accept the credential of the kubeconfig (401), or it may not read what has to be "
        "looked at (403).",
        "kubectl auth whoami",
    )  # fmt: skip

    # ------------------------------------------------------------------ token and cluster-info
    PIN_MALFORMED = Kind(
        "pin-malformed", Area.DISCOVERY, "The CA certificate hash is not sha256: and 64 hexadecimal digits.", _NEW_TOKEN
    )
    PIN_MISSING = Kind(
        "pin-missing", Area.DISCOVERY,
        "Without a CA certificate hash, whoever knows the token can pose as the cluster; a join is refused.",
        _NEW_TOKEN,
    )  # fmt: skip
    PIN_WRONG = Kind(
        "pin-wrong", Area.DISCOVERY,
        "The cluster's CA is not the one that the hash names: it is another cluster, or its CA was changed.",
        _NEW_TOKEN,
    )  # fmt: skip
    TOKEN_MALFORMED = Kind(
        "token-malformed", Area.DISCOVERY, "The token does not have the form of six and sixteen of a-z and 0-9.",
        _NEW_TOKEN,
    )  # fmt: skip
    TOKEN_UNKNOWN = Kind(
        "token-unknown", Area.DISCOVERY,
        "The cluster neither signs cluster-info with the token nor accepts it: it was never there, was deleted, or has "
        "expired.",
        _NEW_TOKEN,
    )  # fmt: skip
    TOKEN_EXPIRED = Kind("token-expired", Area.DISCOVERY, "The token's time is over.", _NEW_TOKEN)
    TOKEN_SECRET_WRONG = Kind(
        "token-secret-wrong", Area.DISCOVERY,
        "There is a token with this ID, and the half behind the dot is another one: a typing error, or an older token.",
        _NEW_TOKEN,
    )  # fmt: skip
    TOKEN_NOT_FOR_SIGNING = Kind(
        "token-not-for-signing", Area.DISCOVERY,
        "The token may ask for a certificate, and cluster-info is not signed with it, so that a machine cannot check "
        "that it talks to the right cluster.",
        f"{_NEW_TOKEN} --usages signing,authentication",
    )  # fmt: skip
    TOKEN_NOT_FOR_AUTHENTICATION = Kind(
        "token-not-for-authentication", Area.DISCOVERY,
        "cluster-info is signed with the token, and the API server does not let anyone in with it.",
        f"{_NEW_TOKEN} --usages signing,authentication",
    )  # fmt: skip
    TOKEN_USED_UP = Kind(
        "token-used-up", Area.DISCOVERY,
        "The token was for so many machines, and each use has become a certificate, or is about to.",
        _NEW_TOKEN,
    )  # fmt: skip
    TOKEN_FOR_OTHERS = Kind(
        "token-for-others", Area.DISCOVERY, "The token is bound to another node name, or to other addresses.",
        _NEW_TOKEN,
    )  # fmt: skip
    TOKEN_BROKEN = Kind(
        "token-broken", Area.DISCOVERY, "A Secret of the bootstrap token type holds no token that counts.",
        "kubectl -n kube-system delete secret NAME",
    )  # fmt: skip
    TOKEN_WEAK = Kind(
        "token-weak", Area.DISCOVERY,
        "The secret of a token can be guessed. Where cluster-info is signed with it, anybody can do so without asking "
        "the server; with a token for authentication whoever has guessed it comes in.",
        "kubevouch token delete ID",
    )  # fmt: skip
    TOKEN_UNSIGNED = Kind(
        "token-unsigned", Area.DISCOVERY,
        "cluster-info lacks the signature of a token that is there for it, or has a wrong one: whoever joins with the "
        "token waits in vain.",
        _CONTROLLERS,
    )  # fmt: skip
    SIGNATURES_MISSING = Kind(
        "signatures-missing", Area.DISCOVERY,
        "cluster-info has no signature at all although it should: the bootstrap signer does not run. In "
        "kube-controller-manager it is off unless --controllers names it.",
        _CONTROLLERS,
    )  # fmt: skip
    CLUSTER_INFO_MISSING = Kind(
        "cluster-info-missing", Area.DISCOVERY,
        "There is no ConfigMap cluster-info in kube-public: the cluster was not set up for machines to join.", _PUBLISH,
    )  # fmt: skip
    CLUSTER_INFO_FORBIDDEN = Kind(
        "cluster-info-forbidden", Area.DISCOVERY,
        "Anonymous requests may not read cluster-info, or are turned off; a machine that has yet to join has nothing "
        "else to ask with.",
        _PUBLISH,
    )  # fmt: skip
    CLUSTER_INFO_BROKEN = Kind(
        "cluster-info-broken", Area.DISCOVERY, "cluster-info holds no kubeconfig with a server and a CA.", _PUBLISH
    )
    CLUSTER_INFO_OTHER_CA = Kind(
        "cluster-info-other-ca", Area.DISCOVERY,
        "cluster-info publishes another CA than the one that the API server's certificate comes from: every join fails "
        "after the first step.",
        _PUBLISH,
    )  # fmt: skip
    REQUESTS_FORBIDDEN = Kind(
        "requests-forbidden", Area.DISCOVERY,
        "The token is accepted, and its groups may not create CertificateSigningRequests.",
        "kubevouch init phase bootstrap-token",
    )  # fmt: skip
    APPROVAL_NOT_AUTOMATIC = Kind(
        "approval-not-automatic", Area.DISCOVERY,
        "No controller approves what the token asks for, so that a join waits for a person.",
        "kubevouch csr review",
    )  # fmt: skip
    NODE_NAME_TAKEN = Kind(
        "node-name-taken", Area.DISCOVERY, "A node of this name is in the cluster and Ready; a join is refused.",
        "kubectl delete node NAME",
    )  # fmt: skip

    # ------------------------------------------------------------------ the node
    NOT_JOINED = Kind(
        "not-joined", Area.NODE, "There is neither a kubeconfig nor a certificate of a node.", _JOIN_AGAIN
    )
    JOINED_ALREADY = Kind(
        "joined-already", Area.NODE,
        "This machine has a good credential of another cluster, or under another name; a join is refused.",
        "kubevouch reset",
    )  # fmt: skip
    KUBECONFIG_MISSING = Kind(
        "kubeconfig-missing", Area.NODE, "There is a certificate, and no kubeconfig that says which cluster it is for.",
        _JOIN_AGAIN,
    )  # fmt: skip
    KUBECONFIG_BROKEN = Kind("kubeconfig-broken", Area.NODE, "The node's kubeconfig cannot be used.", _JOIN_AGAIN)
    FILE_UNREADABLE = Kind(
        "file-unreadable", Area.NODE, "A file cannot be read by this user.", "sudo kubevouch doctor node"
    )
    LINK_MISSING = Kind(
        "link-missing", Area.NODE,
        "kubelet-client-current.pem is not there, and dated pairs are: the link was removed or a switch was cut off.",
        START_AGENT,
    )  # fmt: skip
    LINK_DANGLING = Kind(
        "link-dangling", Area.NODE, "kubelet-client-current.pem points to a file that is not there.", START_AGENT
    )
    LINK_IS_FILE = Kind(
        "link-is-file", Area.NODE,
        "kubelet-client-current.pem is a file where a link has to be; a kubelet cannot put the next one there.",
        START_AGENT,
    )  # fmt: skip
    PAIR_BROKEN = Kind(
        "pair-broken", Area.NODE, "The current file holds no certificate with its key: it was cut off or emptied.",
        START_AGENT,
    )  # fmt: skip
    KEY_MISMATCH = Kind(
        "key-mismatch", Area.NODE, "The private key is not that of the certificate beside it.", START_AGENT
    )
    CERTIFICATE_EXPIRED = Kind(
        "certificate-expired", Area.NODE,
        "The node's certificate has ended, and only with a token or a recovery key does it get another.", _JOIN_AGAIN,
    )  # fmt: skip
    CERTIFICATE_NOT_YET_VALID = Kind(
        "certificate-not-yet-valid", Area.NODE, "The node's certificate begins in the future: the clock is behind.",
        _SET_CLOCK,
    )  # fmt: skip
    RENEWAL_OVERDUE = Kind(
        "renewal-overdue", Area.NODE,
        "The certificate is renewed between 70 and 90 % of its life, and it is past that: nobody does, or it fails.",
        "kubevouch agent status",
    )  # fmt: skip
    CERTIFICATE_OTHER_CA = Kind(
        "certificate-other-ca", Area.NODE,
        "The node's certificate does not come from the CA in its own kubeconfig: the CA was changed, or the machine "
        "has files of two clusters.",
        _JOIN_AGAIN,
    )  # fmt: skip
    CA_FILE_DIFFERS = Kind(
        "ca-file-differs", Area.NODE,
        "ca.crt, by which the kubelet knows the API server when it calls, is not the CA of the node's kubeconfig.",
        _JOIN_AGAIN,
    )  # fmt: skip
    MODES_TOO_OPEN = Kind(
        "modes-too-open",
        Area.NODE,
        "Others on this machine can read or write a file that holds a private key.",
        "chmod 0600 FILE",
    )
    OWNER_DIFFERS = Kind(
        "owner-differs", Area.NODE,
        "A node's files belong to different users, so that a service that runs as one of them cannot read or replace "
        "them all.",
        "chown root FILE",
    )  # fmt: skip
    BOOTSTRAP_KUBECONFIG_LEFT = Kind(
        "bootstrap-kubeconfig-left", Area.NODE,
        "The bootstrap kubeconfig, with a token in it, is still there although the machine has joined.",
        "rm /etc/kubernetes/bootstrap-kubelet.conf",
    )  # fmt: skip
    REQUEST_PENDING = Kind(
        "request-pending",
        Area.NODE,
        "The node has asked for a certificate, and has none of it yet.",
        "kubevouch csr show NAME",
    )
    CERTIFICATE_REFUSED = Kind(
        "certificate-refused", Area.NODE,
        "The API server does not accept the node's certificate (401): it trusts another CA, or has revoked it.",
        _JOIN_AGAIN,
    )  # fmt: skip
    NODE_FORBIDDEN = Kind(
        "node-forbidden", Area.NODE,
        "The API server knows the node and does not let it do what a node does (403): the Node authorizer is off, or "
        "the certificate lacks the group system:nodes.",
        "kubectl auth whoami",
    )  # fmt: skip
    RENEWAL_NOT_AUTOMATIC = Kind(
        "renewal-not-automatic", Area.NODE, "No controller approves a node's renewal, so that it waits for a person.",
        "kubevouch init phase bootstrap-token",
    )  # fmt: skip

    KUBELET_SERVES_FORMER = Kind(
        "kubelet-serves-former", Area.NODE,
        "The kubelet's port shows another certificate than the one on disk: it has not taken the new one over.",
        "systemctl restart kubelet",
    )  # fmt: skip
    FOLDER_NOT_WRITABLE = Kind(
        "folder-not-writable", Area.NODE,
        "The folder of the certificates is full or may not be written, so that the next one has no place.",
        "df -h /var/lib/kubelet",
    )  # fmt: skip

    # ------------------------------------------------------------------ the cluster
    NODE_WITHOUT_ADDRESS = Kind(
        "node-without-address", Area.CLUSTER,
        "A Node has no IP address. A kubelet asks for its serving certificate only once it has one, so that logs, exec "
        "and metrics do not work.",
        "kubectl get nodes -o wide",
    )  # fmt: skip
    KUBELET_NOT_REACHED = Kind(
        "kubelet-not-reached", Area.CLUSTER,
        "A node says that it is Ready, and its kubelet's port cannot be reached from here: a firewall, or another "
        "network. The API server may have the same trouble with logs and exec.",
        "systemctl restart kubelet",
    )  # fmt: skip
    KUBELET_WITHOUT_CERTIFICATE = Kind(
        "kubelet-without-certificate", Area.CLUSTER,
        "A kubelet has no serving certificate: it was told to ask for one (serverTLSBootstrap), and nobody has "
        "approved that. Clients see \"remote error: tls: internal error\".",
        "kubevouch csr review",
    )  # fmt: skip
    KUBELET_SELF_SIGNED = Kind(
        "kubelet-self-signed", Area.CLUSTER,
        "A kubelet serves with a certificate that the cluster's CA does not vouch for, so that metrics-server and "
        "others refuse it; turning verification off hides that and helps whoever stands in between.",
        "kubevouch agent --serving",
    )  # fmt: skip
    KUBELET_NAME_MISSING = Kind(
        "kubelet-name-missing", Area.CLUSTER,
        "A kubelet's certificate is not for the address at which it is called (x509: cannot validate certificate "
        "because it doesn't contain any IP SANs).",
        "kubevouch agent --serving --address ADDRESS",
    )  # fmt: skip
    KUBELET_CERTIFICATE_DATES = Kind(
        "kubelet-certificate-dates", Area.CLUSTER,
        "A kubelet serves with a certificate that has expired or is not yet valid.",
        "kubevouch doctor node",
    )  # fmt: skip
    REQUESTS_PILE_UP = Kind(
        "requests-pile-up", Area.CLUSTER,
        "One requester makes request after request and gets no certificate; kubelets make about four an hour.",
        "kubevouch csr review",
    )  # fmt: skip
    CA_EXPIRED = Kind(
        "ca-expired", Area.CLUSTER, "The cluster's CA has ended: no certificate of it is accepted any more.",
        "cd /etc/kubernetes && mv pki old-pki && mkdir pki && cp -p old-pki/sa.* pki/ && kubevouch init phase certs",
    )  # fmt: skip
    CA_EXPIRING = Kind(
        "ca-expiring", Area.CLUSTER,
        "The cluster's CA ends soon. No certificate outlives it, so that lifetimes get shorter and shorter until then.",
        "kubevouch ca rotate start",
    )  # fmt: skip
    CA_SHARED = Kind(
        "ca-shared", Area.CLUSTER,
        "The CA of clients and that of the front proxy have one key: every client can say that it is anybody. Move "
        "both `front-proxy-ca` files of the control plane away and make new ones; this ConfigMap is made again.",
        "kubectl -n kube-system delete configmap extension-apiserver-authentication",
    )  # fmt: skip
    OPERATOR_CERTIFICATE_EXPIRING = Kind(
        "operator-certificate-expiring", Area.CLUSTER, "The client certificate of this kubeconfig ends soon, or has.",
        "kubevouch certs renew admin.conf",
    )  # fmt: skip
    JOINING_NOT_ALLOWED = Kind(
        "joining-not-allowed", Area.CLUSTER,
        "RBAC lacks what kubeadm gives to joining machines: who has a token of these groups cannot join.",
        "kubevouch init phase bootstrap-token",
    )  # fmt: skip
    REQUEST_WAITING = Kind(
        "request-waiting", Area.CLUSTER, "Nobody has decided about a request for longer than a controller takes.",
        "kubevouch csr show NAME",
    )  # fmt: skip
    REQUEST_UNSIGNED = Kind(
        "request-unsigned", Area.CLUSTER,
        "A request is approved and has no certificate: the signing controller does not run, or has no such key.",
        _CONTROLLERS,
    )  # fmt: skip
    NODE_NAME_SHARED = Kind(
        "node-name-shared", Area.CLUSTER,
        "Machines with different keys have joined under one node name within the last hour. Unless one machine was "
        "installed anew, two of them are one node to the cluster, and each may do what the other may.",
        "kubevouch csr show NAME",
    )  # fmt: skip
    REQUEST_FAILED = Kind(
        "request-failed", Area.CLUSTER, "The signer could not sign an approved request, and never will.",
        "kubectl describe csr NAME",
    )  # fmt: skip

    LEDGER_FULL = Kind(
        "ledger-full", Area.CLUSTER,
        "The ledger of issued certificates has little room left, or none. It remembers whose the nodes' names are; "
        "when it is full, no machine joins with a bootstrap token until certificates end.",
        "kubectl -n kube-system get configmaps",
    )  # fmt: skip
    LEDGER_TOKEN_FULL = Kind(
        "ledger-token-full", Area.CLUSTER,
        "One bootstrap token has let in nearly as many machines as the ledger of issued certificates keeps for one: it "
        "was stolen, or is in use for very long. When its part is full, requests with it wait.",
        "kubevouch token delete ID",
    )  # fmt: skip
    SIGNER_NOT_READY = Kind(
        "signer-not-ready", Area.CLUSTER,
        "A CertificateSigner does not sign: its CA is missing, has ended or cannot be used, what it permits "
        "contradicts itself, or another object has its name. Requests to it wait.",
        "kubevouch signer describe NAME",
    )  # fmt: skip
    SIGNER_STOPPED = Kind(
        "signer-stopped", Area.CLUSTER,
        "A CertificateSigner has stopped: it made a certificate, or was about to, that nobody had allowed. Something "
        "is wrong with this program, with its key, or with what has the key. Find out before it signs again.",
        "kubevouch signer resume NAME",
    )  # fmt: skip
    SIGNER_CA_ENDS = Kind(
        "signer-ca-ends", Area.CLUSTER,
        "The CA of a CertificateSigner ends soon. Certificates are cut short from now on, and then there are none.",
        "kubevouch signer rotate NAME",
    )  # fmt: skip
    DEFINITION_BROKEN = Kind(
        "definition-broken", Area.CLUSTER,
        "The definition of a kind that kubevouch decides by is gone, or serves or keeps less than it has to. What was "
        "revoked, banned or required stays in force as far as the controllers' ledger has it; nothing can be added.",
        "kubectl apply -f deploy/crds",
    )  # fmt: skip
    POLICY_NOT_AUTHORIZED = Kind(
        "policy-not-authorized", Area.CLUSTER,
        "A CertificateRequestPolicy approves nothing: its writer may not approve for the signers that it selects, or "
        "is not recorded by an admission policy in force. Requests that it would approve wait. Somebody who may "
        "approve takes it over, or creates it again.",
        "kubectl annotate --overwrite certificaterequestpolicy NAME kubevouch.io/writer=me",
    )  # fmt: skip
    POLICY_WRITER_UNKNOWN = Kind(
        "policy-writer-unknown", Area.CLUSTER,
        "A CertificateRequestPolicy was written before this server recorded writers. It stays in force, and nobody who "
        "may approve has answered for it since.",
        "kubectl annotate --overwrite certificaterequestpolicy NAME kubevouch.io/writer=me",
    )  # fmt: skip
    REVOCATION_NOT_ENFORCED = Kind(
        "revocation-not-enforced", Area.CLUSTER,
        "Something is revoked, and the API server was not seen to refuse it: a kube-apiserver refuses revoked "
        "certificates only where its authorizers ask a webhook or have a deny list. Whoever holds the certificate may "
        "use it until it ends.",
        "kubevouch revoke webhook-config --into /etc/kubernetes/kubevouch",
    )  # fmt: skip
    RECOVERY_LOCKED = Kind(
        "recovery-locked", Area.CLUSTER,
        "Nobody may recover as this node: an operator has revoked it, or its recovery key was used by two machines, "
        "one of which is a copy.",
        "kubevouch recovery list",
    )  # fmt: skip

    def found(self, cause: str, fix: str = "") -> Finding:
        return Finding(self, cause, fix or self.value.fix)


def fitting(findings: Iterable[Finding], kubevouch: bool | None) -> tuple[Finding, ...]:
    """With the commands of the API server at hand.

    Args:
        kubevouch: whether it is kubevouch's; None if that could not be learnt.
    """
    if kubevouch is not False:
        return tuple(findings)
    return tuple(
        replace(each, fix=_MANAGER_SIGNS if each.code is Code.REQUEST_UNSIGNED else _MANAGER_BOOTSTRAPS)
        if each.fits_kubevouch_only
        else each
        for each in findings
    )


def limited(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """The first of each kind, and one that counts the rest: whoever has a token may make thousands of requests."""
    shown: list[Finding] = []
    seen: Counter[Code] = Counter()
    for each in findings:
        seen[each.code] += 1
        if seen[each.code] <= SHOWN:
            shown.append(each)
    return (*shown, *(code.found(f"{n - SHOWN} more of the kind") for code, n in seen.items() if n > SHOWN))
