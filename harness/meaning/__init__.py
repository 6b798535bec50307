"""What a provider and a model cannot tell apart."""
