"""Building blocks between an attention layer and a model."""
