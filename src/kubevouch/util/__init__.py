"""Small tools without knowledge of Kubernetes: clock, back-off, files, logs, redaction, tasks."""
