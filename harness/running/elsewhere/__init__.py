"""Cells played in other processes, on this machine or others, that a `concurrent.futures.Executor` reaches."""
