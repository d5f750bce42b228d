"""kubevouch.io/v1alpha1: kinds of our own, declared as structs and served as custom resources, here and elsewhere."""

GROUP, VERSION = "kubevouch.io", "v1alpha1"
