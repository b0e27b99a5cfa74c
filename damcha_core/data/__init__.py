"""Data sets, their order and their randomness."""
