"""Models: the Transformer stack, the masked image model, the vision Transformer."""
