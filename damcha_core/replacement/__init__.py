"""Attentions of the catalogue in models that were written for other ones."""
