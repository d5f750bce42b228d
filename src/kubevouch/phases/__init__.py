"""The work behind init, join, token and certs: kubeadm's phases, each callable alone."""
