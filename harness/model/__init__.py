"""The canonical values, protocols and errors that all rooms share. Values without behaviour."""
