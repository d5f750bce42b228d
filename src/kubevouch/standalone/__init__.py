"""The wiring of one process: store, API server and controllers on one event loop."""
