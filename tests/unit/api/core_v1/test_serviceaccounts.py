from __future__ import annotations

from kubevouch.api.core_v1 import ServiceAccount, validate_service_account, validate_service_account_update
from kubevouch.api.core_v1.references import LocalObjectReference, ObjectReference
from kubevouch.machinery.codec import json_codec
from kubevouch.machinery.schema import schema_of


def test_json() -> None:
    account = ServiceAccount(
        secrets=[ObjectReference(name="s")],
        image_pull_secrets=[LocalObjectReference(name="p")],
        automount_service_account_token=False,
    )
    assert json_codec.encode(account) == (
        b'{"metadata":{},"secrets":[{"name":"s"}],"imagePullSecrets":[{"name":"p"}],'
        b'"automountServiceAccountToken":false}'
    )


def test_only_one_of_its_lists_merges_by_name() -> None:
    """kube-apiserver 1.36.2 replaces imagePullSecrets as a whole."""
    fields = schema_of(ServiceAccount).by_name
    assert fields["secrets"].patch_merge_key == "name"
    assert fields["imagePullSecrets"].patch_merge_key == ""


def test_nothing_but_metadata_can_be_wrong() -> None:
    assert validate_service_account(ServiceAccount()) == []
    assert validate_service_account_update(ServiceAccount(), ServiceAccount()) == []
