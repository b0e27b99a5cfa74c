"""Metrics of a trained model, the reference predictions beside them, and pictures of both."""
