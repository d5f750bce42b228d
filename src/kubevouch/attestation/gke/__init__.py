"""Requests of GKE's nodes, as they had them: read, so that they can move. There is no side of the node."""
