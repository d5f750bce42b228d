"""An identity of SPIFFE as evidence: whoever issues SVIDs to machines has attested them already."""
