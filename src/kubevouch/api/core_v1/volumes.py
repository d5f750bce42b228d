"""Volumes of a pod, without those of the drivers that Kubernetes once had built in.

Field numbers and order: k8s.io/api/core/v1 (Kubernetes 1.36).
"""

from __future__ import annotations

from typing import Annotated

from kubevouch.api.core_v1.containers import KeyToPath, ObjectFieldSelector, ResourceFieldSelector
from kubevouch.api.core_v1.references import LocalObjectReference
from kubevouch.machinery.declaration import Int32, Int64, Quantity, Struct, always, named, null, whole, wire
from kubevouch.machinery.meta import LabelSelector, ObjectMeta


class HostPathVolumeSource(Struct):
    """A path of the node."""

    path: Annotated[str, wire(1, "The path.", required=True)] = always(str)
    type: Annotated[str | None, wire(2, "What has to be there.")] = None


class EmptyDirVolumeSource(Struct):
    """A folder that lives as long as the pod."""

    medium: Annotated[str, wire(1, "What it is on; Memory, or the node's.")] = ""
    size_limit: Annotated[Quantity | None, wire(2, "How large it may get.")] = None


class SecretVolumeSource(Struct):
    """A Secret as files."""

    secret_name: Annotated[str, wire(1, "The Secret.")] = ""
    items: Annotated[list[KeyToPath], wire(2, "Those keys only.", list_type="atomic")] = []
    default_mode: Annotated[Int32 | None, wire(3, "The mode of its files.")] = None
    optional: Annotated[bool | None, wire(4, "It may be missing.")] = None


class NFSVolumeSource(Struct):
    """A folder of an NFS server."""

    server: Annotated[str, wire(1, "The server.", required=True)] = always(str)
    path: Annotated[str, wire(2, "The path.", required=True)] = always(str)
    read_only: Annotated[bool, wire(3, "It cannot be written.")] = False


class PersistentVolumeClaimVolumeSource(Struct):
    """The volume of a claim."""

    claim_name: Annotated[str, wire(1, "The claim.", required=True)] = always(str)
    read_only: Annotated[bool, wire(2, "It cannot be written.")] = False


class DownwardAPIVolumeFile(Struct):
    """What is known of the pod as a file."""

    path: Annotated[str, wire(1, "The path of the file.", required=True)] = always(str)
    field_ref: Annotated[ObjectFieldSelector | None, wire(2, "A field of the pod.")] = None
    resource_field_ref: Annotated[ResourceFieldSelector | None, wire(3, "A limit or request of a container.")] = None
    mode: Annotated[Int32 | None, wire(4, "Its mode.")] = None


class DownwardAPIVolumeSource(Struct):
    """What is known of the pod as files."""

    items: Annotated[list[DownwardAPIVolumeFile], wire(1, "The files.", list_type="atomic")] = []
    default_mode: Annotated[Int32 | None, wire(2, "The mode of its files.")] = None


class ConfigMapVolumeSource(Struct):
    """A ConfigMap as files."""

    name: Annotated[str, wire(1, "Name of the object.", inside=(1,))] = ""
    items: Annotated[list[KeyToPath], wire(2, "Those keys only.", list_type="atomic")] = []
    default_mode: Annotated[Int32 | None, wire(3, "The mode of its files.")] = None
    optional: Annotated[bool | None, wire(4, "It may be missing.")] = None


class CSIVolumeSource(Struct):
    """A volume that a driver makes for the pod."""

    driver: Annotated[str, wire(1, "The driver.", required=True)] = always(str)
    read_only: Annotated[bool | None, wire(2, "It cannot be written.")] = None
    fs_type: Annotated[str | None, wire(3, "Its file system.")] = None
    volume_attributes: Annotated[dict[str, str], wire(4, "What the driver is told.")] = {}
    node_publish_secret_ref: Annotated[LocalObjectReference | None, wire(5, "A Secret for the driver.")] = None


@whole
class TypedLocalObjectReference(Struct):
    """An object of any kind in the same namespace."""

    api_group: Annotated[str | None, wire(1, "Its group.")] = null()
    kind: Annotated[str, wire(2, "Its kind.", required=True)] = always(str)
    name: Annotated[str, wire(3, "Its name.", required=True)] = always(str)


class TypedObjectReference(Struct):
    """An object of any kind."""

    api_group: Annotated[str | None, wire(1, "Its group.")] = null()
    kind: Annotated[str, wire(2, "Its kind.", required=True)] = always(str)
    name: Annotated[str, wire(3, "Its name.", required=True)] = always(str)
    namespace: Annotated[str | None, wire(4, "Its namespace.")] = None


class VolumeResourceRequirements(Struct):
    """How large a volume is."""

    limits: Annotated[dict[str, Quantity], wire(1, "At most.")] = {}
    requests: Annotated[dict[str, Quantity], wire(2, "At least.")] = {}


class PersistentVolumeClaimSpec(Struct):
    """The volume that is wanted."""

    access_modes: Annotated[list[str], wire(1, "How it can be mounted.", list_type="atomic")] = []
    selector: Annotated[LabelSelector | None, wire(4, "Labels of volumes that will do.")] = None
    resources: Annotated[VolumeResourceRequirements, wire(2, "How large it is.")] = always(VolumeResourceRequirements)
    volume_name: Annotated[str, wire(3, "The volume that the claim has got.")] = ""
    storage_class_name: Annotated[str | None, wire(5, "The StorageClass.")] = None
    volume_mode: Annotated[str | None, wire(6, "Filesystem or Block.")] = None
    data_source: Annotated[TypedLocalObjectReference | None, wire(7, "What it begins with.")] = None
    data_source_ref: Annotated[TypedObjectReference | None, wire(8, "What it begins with, also from elsewhere.")] = None
    volume_attributes_class_name: Annotated[str | None, wire(9, "The VolumeAttributesClass.")] = None


class PersistentVolumeClaimTemplate(Struct):
    """The claim that is made for a pod."""

    metadata: Annotated[ObjectMeta, wire(1, "Its labels and annotations.")] = always(ObjectMeta)
    spec: Annotated[PersistentVolumeClaimSpec, wire(2, "What it asks for.", required=True)] = always(
        PersistentVolumeClaimSpec
    )


class EphemeralVolumeSource(Struct):
    """A volume that comes and goes with the pod."""

    volume_claim_template: Annotated[
        PersistentVolumeClaimTemplate | None, wire(1, "The claim that is made for it.")
    ] = None


class ImageVolumeSource(Struct):
    """What is in an image."""

    reference: Annotated[str, wire(1, "The image.")] = ""
    pull_policy: Annotated[str, wire(2, "When to pull it.")] = ""


class SecretProjection(Struct):
    """A Secret in a projected volume."""

    name: Annotated[str, wire(1, "Name of the object.", inside=(1,))] = ""
    items: Annotated[list[KeyToPath], wire(2, "Those keys only.", list_type="atomic")] = []
    optional: Annotated[bool | None, wire(4, "It may be missing.")] = None


class DownwardAPIProjection(Struct):
    """What is known of the pod in a projected volume."""

    items: Annotated[list[DownwardAPIVolumeFile], wire(1, "The files.", list_type="atomic")] = []


class ConfigMapProjection(Struct):
    """A ConfigMap in a projected volume."""

    name: Annotated[str, wire(1, "Name of the object.", inside=(1,))] = ""
    items: Annotated[list[KeyToPath], wire(2, "Those keys only.", list_type="atomic")] = []
    optional: Annotated[bool | None, wire(4, "It may be missing.")] = None


class ServiceAccountTokenProjection(Struct):
    """A token in a projected volume."""

    audience: Annotated[str, wire(1, "For whom it is.")] = ""
    expiration_seconds: Annotated[Int64 | None, wire(2, "How long it holds.")] = None
    path: Annotated[str, wire(3, "The path of the file.", required=True)] = always(str)


class ClusterTrustBundleProjection(Struct):
    """Trust anchors in a projected volume."""

    name: Annotated[str | None, wire(1, "The ClusterTrustBundle.")] = None
    signer_name: Annotated[str | None, wire(2, "Those of a signer instead.")] = None
    label_selector: Annotated[LabelSelector | None, wire(3, "Those of the signer with these labels.")] = None
    path: Annotated[str, wire(4, "The path of the file.", required=True)] = always(str)
    optional: Annotated[bool | None, wire(5, "It may be missing.")] = None


class PodCertificateProjection(Struct):
    """A key and a certificate for the pod, which the kubelet asks a signer for and keeps fresh."""

    signer_name: Annotated[str, wire(1, "Whose signature is wanted, as domain/path.", required=True)] = always(str)
    key_type: Annotated[
        str, wire(2, "RSA3072, RSA4096, ECDSAP256, ECDSAP384, ECDSAP521 or ED25519.", required=True)
    ] = always(str)
    max_expiration_seconds: Annotated[Int32 | None, wire(3, "How long the certificate may hold at most.")] = None
    credential_bundle_path: Annotated[str, wire(4, "The file for key and chain together.")] = ""
    key_path: Annotated[str, wire(5, "The file for the key.")] = ""
    certificate_chain_path: Annotated[str, wire(6, "The file for the chain.")] = ""
    user_annotations: Annotated[dict[str, str], wire(7, "What the pod's author tells the signer.")] = {}


class VolumeProjection(Struct):
    """One source of a projected volume."""

    secret: Annotated[SecretProjection | None, wire(1, "A Secret.")] = None
    downward_api: Annotated[DownwardAPIProjection | None, wire(2, "What is known of the pod.")] = named(
        "downwardAPI", None
    )
    config_map: Annotated[ConfigMapProjection | None, wire(3, "A ConfigMap.")] = None
    service_account_token: Annotated[ServiceAccountTokenProjection | None, wire(4, "A token.")] = None
    cluster_trust_bundle: Annotated[ClusterTrustBundleProjection | None, wire(5, "Trust anchors.")] = None
    pod_certificate: Annotated[PodCertificateProjection | None, wire(6, "A key and a certificate for the pod.")] = None


class ProjectedVolumeSource(Struct):
    """A volume that several sources share."""

    sources: Annotated[list[VolumeProjection] | None, wire(1, "What is in it.", list_type="atomic")] = null()
    default_mode: Annotated[Int32 | None, wire(2, "The mode of its files.")] = None


class Volume(Struct):
    """A volume of a pod."""

    name: Annotated[str, wire(1, "Its name within the pod.", required=True)] = always(str)
    host_path: Annotated[HostPathVolumeSource | None, wire(1, "A path of the node.", inside=(2,))] = None
    empty_dir: Annotated[
        EmptyDirVolumeSource | None, wire(2, "A folder that lives as long as the pod.", inside=(2,))
    ] = None
    secret: Annotated[SecretVolumeSource | None, wire(6, "A Secret as files.", inside=(2,))] = None
    nfs: Annotated[NFSVolumeSource | None, wire(7, "A folder of an NFS server.", inside=(2,))] = None
    persistent_volume_claim: Annotated[
        PersistentVolumeClaimVolumeSource | None, wire(10, "The volume of a claim.", inside=(2,))
    ] = None
    downward_api: Annotated[
        DownwardAPIVolumeSource | None, wire(16, "What is known of the pod as files.", inside=(2,))
    ] = named("downwardAPI", None)
    config_map: Annotated[ConfigMapVolumeSource | None, wire(19, "A ConfigMap as files.", inside=(2,))] = None
    projected: Annotated[ProjectedVolumeSource | None, wire(26, "Several sources in one folder.", inside=(2,))] = None
    csi: Annotated[CSIVolumeSource | None, wire(28, "A volume that a driver makes for the pod.", inside=(2,))] = None
    ephemeral: Annotated[
        EphemeralVolumeSource | None, wire(29, "A volume that comes and goes with the pod.", inside=(2,))
    ] = None
    image: Annotated[ImageVolumeSource | None, wire(30, "What is in an image.", inside=(2,))] = None
