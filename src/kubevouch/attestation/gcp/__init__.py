"""Google Compute Engine: an identity token for this key, and the form that GKE's nodes had."""
