"""What the metrics of a trained DAMCHA model do: whether, and how far, the input moves them."""

from damcha_core.experiments.adaptivity.analysis import analyse
from damcha_core.experiments.adaptivity.record import ADAPTIVITY_FILE, store

__all__ = ["ADAPTIVITY_FILE", "analyse", "store"]
