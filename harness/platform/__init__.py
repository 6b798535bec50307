"""Access to the machine: files, environment variables, installed packages, exceptions and project settings."""
