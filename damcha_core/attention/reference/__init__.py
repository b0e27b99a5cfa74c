"""Slow attentions in float64, written from the formulas: what the layers are tested against."""
