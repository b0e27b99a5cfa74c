"""The structures that M may have."""

from damcha_core.attention.structures.choice import OUTPUTS, STRUCTURES, make_structure
from damcha_core.attention.structures.structure import Structure

__all__ = ["OUTPUTS", "STRUCTURES", "Structure", "make_structure"]
