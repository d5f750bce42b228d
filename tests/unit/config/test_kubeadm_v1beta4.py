from __future__ import annotations

import pytest

from kubevouch.config.config_file import ConfigFileError
from kubevouch.config.kubeadm_v1beta4 import dump_cluster, load

HEAD = "apiVersion: kubeadm.k8s.io/v1beta4\n"
WHOLE = f"""\
# as kubeadm config print init-defaults prints it
{HEAD}kind: InitConfiguration
bootstrapTokens:
- token: abcdef.0123456789abcdef
  ttl: 24h0m0s
  usages: [signing, authentication]
  groups: [system:bootstrappers:kubeadm:default-node-token]
localAPIEndpoint:
  advertiseAddress: 1.2.3.4
  bindPort: 6443
nodeRegistration:
  criSocket: unix:///var/run/containerd/containerd.sock
  imagePullPolicy: IfNotPresent
  imagePullSerial: true
  name: node
  taints: null
timeouts:
  controlPlaneComponentHealthCheck: 4m0s
  discovery: 5m0s
  etcdAPICall: 2m0s
  kubeletHealthCheck: 4m0s
  kubernetesAPICall: 1m0s
  tlsBootstrap: 5m0s
  upgradeManifests: 5m0s
---
{HEAD}kind: ClusterConfiguration
apiServer: {{}}
caCertificateValidityPeriod: 87600h0m0s
certificateValidityPeriod: 8760h0m0s
certificatesDir: /etc/kubernetes/pki
clusterName: kubernetes
controllerManager: {{}}
dns: {{}}
encryptionAlgorithm: RSA-2048
etcd:
  local:
    dataDir: /var/lib/etcd
imageRepository: registry.k8s.io
kubernetesVersion: 1.36.0
networking:
  dnsDomain: cluster.local
  serviceSubnet: 10.96.0.0/12
proxy: {{}}
scheduler: {{}}
---
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
cgroupDriver: cgroupfs
---
apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
mode: ipvs
"""


def test_kubeadms_own_defaults_are_read_and_written_as_they_came() -> None:
    found = load(WHOLE.encode())
    assert found.init is not None and found.cluster is not None and found.join is None
    assert found.init.local_api_endpoint.bind_port == 6443
    assert found.init.node_registration.taints is None
    assert found.kubelet is not None and found.kubelet["cgroupDriver"] == "cgroupfs"
    assert found.passed_over == ("KubeProxyConfiguration",)
    text = dump_cluster(found.cluster)
    again = load(text.encode()).cluster
    assert again == found.cluster
    documents = WHOLE.split("---\n")
    assert sorted(text.splitlines()) == sorted(documents[1].splitlines())


def test_a_join_configuration() -> None:
    text = f"""\
{HEAD}kind: JoinConfiguration
caCertPath: /etc/kubernetes/pki/ca.crt
controlPlane:
  certificateKey: abc
  localAPIEndpoint: {{advertiseAddress: 1.2.3.4, bindPort: 6443}}
discovery:
  bootstrapToken:
    apiServerEndpoint: kube-apiserver:6443
    caCertHashes: ["sha256:00"]
    token: abcdef.0123456789abcdef
    unsafeSkipCAVerification: true
  tlsBootstrapToken: abcdef.0123456789abcdef
skipPhases: [preflight]
dryRun: true
"""
    found = load(text.encode()).join
    assert found is not None and found.control_plane is not None and found.discovery.bootstrap_token is not None
    assert found.discovery.bootstrap_token.unsafe_skip_ca_verification
    assert found.control_plane.local_api_endpoint.advertise_address == "1.2.3.4"
    assert found.dry_run and found.skip_phases == ["preflight"] and found.discovery.file is None


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "no InitConfiguration, ClusterConfiguration or JoinConfiguration kind was found"),
        ("kind: JoinConfiguration", "kind and apiVersion is mandatory"),
        ("apiVersion: kubeadm.k8s.io/v1beta3\nkind: JoinConfiguration", "expected kubeadm.k8s.io/v1beta4"),
        (f"{HEAD}kind: UpgradeThing", 'no kind "UpgradeThing" is registered'),
        (f"{HEAD}kind: JoinConfiguration\ndiscoverry: {{}}", 'unknown field "discoverry"'),
        (f"{HEAD}kind: ClusterConfiguration\napiServer: {{certSans: [a]}}", 'unknown field "apiServer.certSans"'),
        (f"{HEAD}kind: JoinConfiguration\ndryRun: true\ndryRun: true", 'key "dryRun" already set'),
        (f"{HEAD}kind: JoinConfiguration\ndryRun: perhaps", "cannot unmarshal string"),
        (f"{HEAD}kind: JoinConfiguration\n---\n{HEAD}kind: JoinConfiguration", "is there twice"),
        ("[1, 2]", "no configuration"),
        ("a: [", "yaml"),
    ],
)
def test_what_is_no_configuration(text: str, why: str) -> None:
    with pytest.raises(ConfigFileError) as refusal:
        load(text.encode())
    assert why in str(refusal.value)


def test_bounds() -> None:
    with pytest.raises(ConfigFileError, match="expected at most"):
        load(b" " * (1 << 21))
    with pytest.raises(ConfigFileError, match="UTF-8"):
        load(b"\xff\xfe\x00")
