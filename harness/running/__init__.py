"""One run: cells are staged, played, judged and gathered."""
