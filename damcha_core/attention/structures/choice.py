"""The structures by name."""

from __future__ import annotations

from damcha_core.attention.structures.factored import LowRank, PositiveSemidefinite
from damcha_core.attention.structures.full import FullHeads, FullMatrix, Symmetric
from damcha_core.attention.structures.sparse import BlockDiagonal, Diagonal
from damcha_core.attention.structures.structure import Structure

STRUCTURES = ("full", "symmetric", "psd", "low_rank", "diagonal", "block_diagonal")
OUTPUTS = ("head", "matrix")


def make_structure(
    name: str, d_model: int, n_heads: int, *, output: str = "head", rank: int = 0
) -> Structure:
    """Structure by name.

    Args:
        name: one of STRUCTURES.
        d_model: width D.
        n_heads: number of heads H, a divisor of D.
        output: "head" or "matrix", the form of full; the others have one form.
        rank: number of columns of the factors of psd and low_rank; 0: K for psd, max(1, K // 2)
            for low_rank. The others have no rank.

    Raises:
        ValueError: name, output or rank is none of these, or a structure without a rank is given
            one.
    """
    if name not in STRUCTURES:
        raise ValueError(f"structure must be one of {', '.join(STRUCTURES)}; got {name!r}")
    if output not in OUTPUTS:
        raise ValueError(f"output must be one of {', '.join(OUTPUTS)}; got {output!r}")
    if rank < 0:
        raise ValueError(f"rank must be at least 0 (0 = the structure's own), got {rank}")
    if name == "psd":
        return PositiveSemidefinite(d_model, n_heads, rank)
    if name == "low_rank":
        return LowRank(d_model, n_heads, rank)
    if rank:
        raise ValueError(f"only psd and low_rank have a rank; got rank {rank} for {name}")
    if name == "full":
        return FullHeads(d_model, n_heads) if output == "head" else FullMatrix(d_model, n_heads)
    if name == "symmetric":
        return Symmetric(d_model, n_heads)
    return Diagonal(d_model, n_heads) if name == "diagonal" else BlockDiagonal(d_model, n_heads)
