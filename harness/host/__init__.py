"""What the machine gives and takes: files, the environment and its keys, what is said of an exception."""
