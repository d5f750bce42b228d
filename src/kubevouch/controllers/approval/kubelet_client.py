"""Kubelets' client certificates: approved for whoever has the right, within the bounds of names, tokens and recovery.

Source: pkg/controller/certificates/approver/sarapprove.go (Kubernetes 1.36), which never denies. Here a request is
denied that a bounded bootstrap token is not for, or has no use left for, that a recovery key is not for, or whose name
or key belongs to another machine.
"""

from __future__ import annotations

from collections.abc import Iterable

from kubevouch import wellknown
from kubevouch.api.certificates_v1 import CertificateSigningRequest
from kubevouch.api.core_v1 import Secret
from kubevouch.client.interface import Client
from kubevouch.controllers.approval.access_review import may_create
from kubevouch.controllers.approval.interface import Bound, RefusedError
from kubevouch.controllers.approval.name_admission import NameAdmission, NameRefusedError, name_caches
from kubevouch.controllers.approval.recovery_admission import RecoveryAdmission
from kubevouch.controllers.approval.token_admission import TokenAdmission
from kubevouch.controllers.bootstrap_secrets import TOKEN_INDEX, requests_by_token, token_informer
from kubevouch.controllers.controller import QueueController
from kubevouch.controllers.interface import Context, IgnorableError, Request, request_of
from kubevouch.controllers.recovery_records import RecoveryRecords
from kubevouch.pki.recognizers import APPROVED_REASON, not_approved, recognize
from kubevouch.pki.x509.x509_request import CertificateRequest
from kubevouch.policy.facts import RequestFacts
from kubevouch.policy.node_attestation import is_client
from kubevouch.policy.verdict import Outcome, Step, StepResult, Verdict
from kubevouch.records.bootstrap_tokens import token_id_of_name, token_id_of_user
from kubevouch.records.node_recovery import RecoveryRefusedError
from kubevouch.records.token_bounds import DENIED_REASON, TokenBoundError

NAME = "kubelet-client"
RECOVERY_DENIED_REASON = "RecoveryRefused"


class KubeletClientApprover:
    """Recognises, and asks whether the requester may have it."""

    name = NAME

    def __init__(self, client: Client) -> None:
        self._client = client

    def has_loaded(self) -> bool:
        return True

    async def judge(self, csr: CertificateSigningRequest, facts: RequestFacts, request: CertificateRequest) -> Verdict:
        """See :class:`kubevouch.controllers.approval.interface.Approver`."""
        recognized = recognize(facts.signer_name, request, facts.usages, username=facts.username)
        steps: list[Step] = []
        for recognition in recognized:
            allowed = await may_create(self._client, csr.spec, recognition.subresource)
            right = f"create certificatesigningrequests/{recognition.subresource}"
            steps.append(Step(right, StepResult.MET if allowed else StepResult.UNMET, facts.username))
            if allowed:
                return Verdict(Outcome.APPROVE, NAME, APPROVED_REASON, recognition.message, steps=tuple(steps))
        if recognized:
            # Nobody tells of a right that is given.
            missing = not_approved(facts.name, recognized)
            return Verdict(Outcome.NO_OPINION, NAME, "NotPermitted", missing=missing, steps=tuple(steps), retry=True)
        return Verdict(Outcome.NO_OPINION, NAME)


def build(context: Context, _: QueueController) -> KubeletClientApprover | None:
    """None where kube-controller-manager's approver does this: of two, whoever is first would decide."""
    if not context.approves_kubelet_clients:
        return None
    return KubeletClientApprover(context.connect(wellknown.CSR_APPROVING_CONTROLLER))


class MachineBounds:
    """What a machine may have whoever approves it: a name that is free, a use of its token or of its recovery key."""

    def __init__(self, tokens: TokenAdmission, recovery: RecoveryAdmission, names: NameAdmission) -> None:
        self._tokens = tokens
        self._recovery = recovery
        self.names = names

    async def admit(self, csr: CertificateSigningRequest, request: CertificateRequest) -> None:
        """See :class:`kubevouch.controllers.approval.interface.Bound`."""
        try:
            if csr.spec.signer_name == wellknown.KUBE_APISERVER_CLIENT_KUBELET_SIGNER:
                await self.names.admit(csr, request)
            await self._tokens.admit(csr)
            await self._recovery.admit(csr)
        except NameRefusedError as err:
            raise RefusedError("node-name", err.reason, str(err)) from err
        except TokenBoundError as err:
            raise RefusedError("bootstrap-token", DENIED_REASON, str(err)) from err
        except RecoveryRefusedError as err:
            raise RefusedError("node-recovery", RECOVERY_DENIED_REASON, str(err)) from err


class LeftToOthers:
    """Where somebody else approves the client certificates of kubelets: whatever is for them, or came with a bootstrap
    token, is theirs alone, whoever here would approve it. So nobody here has to read bootstrap tokens.
    """

    async def admit(self, csr: CertificateSigningRequest, request: CertificateRequest) -> None:  # noqa: ARG002
        """Raises :class:`IgnorableError`."""
        if is_client(csr.spec.signer_name):
            # Which nobody else approves. What the token is bounded to is not known here: the proof decides.
            return
        is_kubelets = csr.spec.signer_name == wellknown.KUBE_APISERVER_CLIENT_KUBELET_SIGNER
        if is_kubelets or token_id_of_user(csr.spec.username):
            raise IgnorableError(
                f"csr {csr.metadata.name} is left to kube-controller-manager: "
                "the controller csrapproving was not named, which would approve the client certificates of kubelets"
            )


def build_bounds(context: Context, client: Client, controller: QueueController) -> Bound:
    """Wakes the requests that a use of their token may have become free for."""
    if not context.approves_kubelet_clients:
        return LeftToOthers()
    tokens = context.connect(wellknown.TOKEN_USES_CONTROLLER)
    informer = requests_by_token(context, client)
    secrets = token_informer(context, tokens)

    def waiting(secret: Secret) -> Iterable[Request]:
        token_id = token_id_of_name(secret.metadata.name)
        if token_id is None or not secret.metadata.annotations:
            return
        yield from map(request_of, informer.lister.by_index(TOKEN_INDEX, token_id))

    recoverer = context.connect(wellknown.NODE_RECOVERY_CONTROLLER)
    records = RecoveryRecords(recoverer, context.clock, wellknown.NODE_RECOVERY_CONTROLLER)
    bounds = TokenAdmission(tokens, secrets.lister)
    caches = name_caches(context, client, informer)
    names = NameAdmission(client, caches, bounds, context.clock, takeover=context.allow_name_takeover)
    controller.watch(secrets, on_update=waiting, resync_seconds=0)
    return MachineBounds(bounds, RecoveryAdmission(records, context.recovery, context.clock), names)
