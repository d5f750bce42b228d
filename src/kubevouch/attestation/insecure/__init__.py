"""No proof at all: whoever has a bootstrap token becomes any node that is not there yet."""
