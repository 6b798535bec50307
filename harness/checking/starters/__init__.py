"""The files to begin with, as they are written."""
