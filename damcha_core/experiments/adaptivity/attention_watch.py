"""What the DAMCHA layers of a model are given and make of it, pass by pass.

Shapes: B sequences, N tokens, D width, H heads, K head width.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from damcha_core.attention.damcha import DamchaAttention
from damcha_core.experiments.adaptivity.metric_moments import MetricMoments

WHOLE = 0
"""The group of metrics that are made from a whole sequence."""
ROWS_AT_A_TIME = 8
"""Sequences whose scores are held at once."""


class AttentionWatch:
    """Watches the DAMCHA layers of a model while it runs on batches.

    A causal layer makes a metric for every prefix. Looked at are those of 2, 4, 8, ... tokens:
    they move by a part of 1/t from one token to the next, and a query with one key has no choice.

    Args:
        model: with DAMCHA layers of an adaptive source, which run on sequences without a mask.

    Attributes:
        layers: in the order of the model.
        moments: of the metrics, layer by layer.
        largest_score: of each layer, the largest |x_i m_i x_i^T| / sqrt(K) by head.
        contexts: of the latest batch, layer by layer.
    """

    def __init__(self, model: nn.Module) -> None:
        self.layers = [part for part in model.modules() if isinstance(part, DamchaAttention)]
        self.moments = [MetricMoments() for _ in self.layers]
        self.largest_score = [torch.zeros(layer.n_heads) for layer in self.layers]
        self.contexts: list[Tensor] = []
        self._n_real: Sequence[int] | None = None

    @contextmanager
    def watching(self, n_real: Sequence[int] | None) -> Iterator[None]:
        """Watch the passes of a batch.

        Args:
            n_real: tokens of each sequence that are no padding, which comes last; None: all.
        """
        self.contexts, self._n_real = [], n_real
        with ExitStack() as hooks:
            for place, layer in enumerate(self.layers):
                handle = layer.register_forward_pre_hook(self._hook(place), with_kwargs=True)
                hooks.callback(handle.remove)
            yield

    def _hook(self, place: int) -> Any:
        def hook(layer: DamchaAttention, tokens: tuple[Tensor], options: Mapping[str, Any]) -> None:
            assert options.get("key_mask") is None
            is_causal = bool(options.get("is_causal", False))
            context = layer.context(tokens[0], None, is_causal)
            self.contexts.append(context)
            self._add_metrics(self.moments[place], layer, context)
            score_H = self._largest_score(layer, tokens[0], is_causal)
            self.largest_score[place] = torch.maximum(self.largest_score[place], score_H)

        return hook

    def _add_metrics(self, moments: MetricMoments, layer: DamchaAttention, context: Tensor) -> None:
        if context.dim() == 2:
            moments.add(WHOLE, layer.generator.head_metrics(context))
            return
        n_batch, n_tokens, _ = context.shape
        n_real_B = torch.tensor(self._n_real or [n_tokens] * n_batch, device=context.device)
        for length in prefix_lengths(n_tokens):
            long_enough_JD = context[n_real_B >= length, length - 1]
            if len(long_enough_JD):
                moments.add(length, layer.generator.head_metrics(long_enough_JD))

    def _largest_score(self, layer: DamchaAttention, x_BND: Tensor, is_causal: bool) -> Tensor:
        largest_H = torch.zeros(layer.n_heads, dtype=torch.float64)
        n_tokens = x_BND.shape[1]
        place_N = torch.arange(n_tokens, device=x_BND.device)
        n_real_B = torch.tensor(self._n_real or [n_tokens] * len(x_BND), device=x_BND.device)
        for rows in range(0, len(x_BND), ROWS_AT_A_TIME):
            part_BND = x_BND[rows : rows + ROWS_AT_A_TIME]
            x_BHNK = layer.split_heads(part_BND)
            q_BHNK = layer.queries(part_BND, None, is_causal)
            scores_BHNN = (q_BHNK @ x_BHNK.mT).abs() / layer.d_head**0.5
            real_BN = place_N < n_real_B[rows : rows + ROWS_AT_A_TIME, None]
            pairs_BNN = real_BN[:, :, None] & real_BN[:, None, :]
            if is_causal:
                pairs_BNN = pairs_BNN.tril()
            seen_BHNN = scores_BHNN.where(pairs_BNN[:, None], scores_BHNN.new_zeros(()))
            largest_H = torch.maximum(largest_H, seen_BHNN.amax((0, 2, 3)).cpu().double())
        return largest_H

    @contextmanager
    def swapped(self, rows: Sequence[int]) -> Iterator[None]:
        """Let each sequence be compared under the metrics that another one had when watched.

        A causal layer takes, for the query of token t, the metric of the other one's prefix of t
        tokens, or of all of it where it has fewer.

        Args:
            rows: for each row of the batch, the row whose contexts it gets.
        """
        with ExitStack() as stack:
            for layer, context in zip(self.layers, self.contexts, strict=True):
                stack.enter_context(layer.given_context(self._of_rows(context, rows)))
            yield

    def _of_rows(self, context: Tensor, rows: Sequence[int]) -> Tensor:
        taken = context[torch.tensor(rows, device=context.device)]
        if taken.dim() == 2 or self._n_real is None:
            return taken
        last_B1 = torch.tensor([[self._n_real[row] - 1] for row in rows], device=context.device)
        place_BN = torch.arange(taken.shape[1], device=context.device).minimum(last_B1)
        return taken.take_along_dim(place_BN.unsqueeze(-1), 1)


def prefix_lengths(n_tokens: int) -> list[int]:
    """2, 4, 8, ... up to the number of tokens; 1 where that is all."""
    lengths, length = [], 2
    while length <= n_tokens:
        lengths.append(length)
        length *= 2
    return lengths or [1]
