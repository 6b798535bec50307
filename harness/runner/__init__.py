"""Runs cells: opens their environments, runs their scenarios, judges them and collects the results."""
