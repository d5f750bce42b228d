"""The store on etcd v3, which several servers share. Needs the extra ``etcd``; imported only where it is meant."""

import os

# Before gRPC is imported: else each handshake that fails writes a line of gRPC's own to standard error.
os.environ.setdefault("GRPC_VERBOSITY", "ERROR")
