"""At which tokens a causal layer makes a new metric.

Shapes: B batch, N tokens, J metrics of a sequence, D width, H heads, K head width.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from damcha_core.attention.pooling import prefix_mean
from damcha_core.catalog.refresh_schedule import RefreshSchedule


class Refresh(RefreshSchedule):
    """A refresh schedule on tensors: the contexts of its metrics, and the tokens that use them."""

    def contexts(self, packed_BND: Tensor) -> Tensor:
        """The means that the metrics are made from.

        Args:
            packed_BND: tokens, the real ones of each sequence first (`Packing`).

        Returns:
            Tensor (B, J, D), float32 or wider. Those of counts that a sequence does not reach are
            finite and belong to no real token.
        """
        places = [count - 1 for count in self.counts(packed_BND.shape[1])]
        index_J = torch.tensor(places, dtype=torch.long, device=packed_BND.device)
        return prefix_mean(packed_BND).index_select(1, index_J)

    def context_of_tokens(self, x_BND: Tensor, key_mask: Tensor | None) -> Tensor:
        """The mean that each token's metric is made from: (B, N, D), zeros before a real token."""
        n_tokens = x_BND.shape[1]
        run_N = run_of_token(self.runs(n_tokens), x_BND.device)
        if key_mask is None:
            return self.contexts(x_BND).index_select(1, run_N)
        contexts_BJD = self.contexts(Packing(key_mask).pack(x_BND))
        count_BN = key_mask.cumsum(1)
        run_BN = run_N[(count_BN - 1).clamp(min=0)]
        held_BND = contexts_BJD.take_along_dim(run_BN.unsqueeze(-1), 1)
        return torch.where(count_BN.unsqueeze(-1) > 0, held_BND, held_BND.new_zeros(()))


def run_of_token(lengths: Sequence[int], device: torch.device) -> Tensor:
    """Number of the run of each token, (N,), for runs of these lengths."""
    runs = [run for run, length in enumerate(lengths) for _ in range(length)]
    return torch.tensor(runs, dtype=torch.long, device=device)


class Packing:
    """The order that has the real tokens of each sequence first, and the way back.

    Refresh counts number the real tokens. Once these stand first, the n-th of every sequence is
    in one place, wherever its pads were.

    Args:
        key_mask: bool (B, N), True = real token.
    """

    def __init__(self, key_mask: Tensor) -> None:
        n_real_B1 = key_mask.sum(1, keepdim=True)
        among_real_BN, among_pads_BN = key_mask.cumsum(1), (~key_mask).cumsum(1)
        self.place_BN = torch.where(key_mask, among_real_BN, n_real_B1 + among_pads_BN) - 1
        self.order_BN = self.place_BN.argsort(1)

    def pack(self, x_BND: Tensor) -> Tensor:
        """Tokens with the real ones first."""
        return x_BND.take_along_dim(self.order_BN.unsqueeze(-1), 1)

    def unpack(self, x_BHNK: Tensor) -> Tensor:
        """Heads of packed tokens in the order of the sequence."""
        return x_BHNK.take_along_dim(self.place_BN[:, None, :, None], 2)
