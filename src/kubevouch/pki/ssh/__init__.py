"""OpenSSH's keys, certificates, signatures and revocation lists, as far as host keys prove what a machine is."""
