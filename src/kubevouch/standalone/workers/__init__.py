"""Several processes that are one server: an owner with store and controllers, and workers that share its port."""
