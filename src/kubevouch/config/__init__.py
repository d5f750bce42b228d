"""Files that people write, one module per format: kubeconfig, kubeadm's, kube-apiserver's, the agent's."""
