"""The store on etcd v3, which several servers share. Needs the extra ``etcd``; imported only where it is meant."""
