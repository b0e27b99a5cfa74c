"""Scores of generated text."""
