"""Resources of admissionregistration.k8s.io."""

CATEGORIES = ("api-extensions",)
