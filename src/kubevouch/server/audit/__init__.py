"""Who did what, when: Kubernetes' audit policy, events and backends."""
