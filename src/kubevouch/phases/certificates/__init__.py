"""The certificates below ``/etc/kubernetes/pki``: made, listed, renewed, and their authority replaced."""
