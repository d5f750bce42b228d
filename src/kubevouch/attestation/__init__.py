"""How a machine proves what it is: a folder for each method, with what the node's side and the server's side share."""
