"""What is known of a request, a token or a join, gathered through the API for whoever has to decide."""
