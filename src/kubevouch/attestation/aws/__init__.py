"""What AWS says of an instance: its identity document, and a call to STS that only its role can have signed."""
