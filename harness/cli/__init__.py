"""The command line, with one module for each command. A command imports what it needs when it runs."""
