"""What an API server itself does about the definitions of custom kinds."""
