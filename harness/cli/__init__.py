"""The command line: one module for each command. What a command needs is imported when it runs."""
