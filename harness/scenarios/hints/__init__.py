"""What was meant: one sentence for each common mistake in a scenario, with the right spelling.

Asked only where something is wrong already, so that no file which can be read is talked out of it. `structure` knows
mistakes in what a file says, `syntax` those by which it is no YAML, or not the YAML that was meant.
"""
