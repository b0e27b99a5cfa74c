"""What a DAMCHA layer keeps between the steps of decoding.

Shapes: B batch, M new tokens, D width, H heads, K head width; T tokens and J metrics of a part.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor

from damcha_core.attention.cache import KeyValueCache
from damcha_core.attention.generator import MetricGenerator
from damcha_core.attention.pooling import continued_mean
from damcha_core.attention.refresh import Refresh

Renewal = tuple[int, int]  # row of the batch, place in the step of the token with a new metric


class MetricCache(KeyValueCache):
    """Keys, values, the sum and the count of the real tokens so far, and the current metric.

    So the work for the metric of a new token depends on no length. A layer that does not make a
    metric for every token keeps the current one as its maps, and the counts on the host, where
    they decide whether there is anything to generate; a step with a mask fetches it for that.

    Attributes:
        sum_BD: sum of the real tokens so far, None before the first step.
        count_B: how many they are.
        maps: the maps of the current metric, each (B, ...); empty as long as there is none.
        counts: `count_B` on the host.
        renewed: count at which each row's current metric was made, 0 for none.
    """

    def __init__(self) -> None:
        super().__init__()
        self.sum_BD: Tensor | None = None
        self.count_B: Tensor | None = None
        self.maps: tuple[Tensor, ...] = ()
        self.counts: list[int] = []
        self.renewed: list[int] = []

    def reorder(self, rows_B: Tensor) -> None:
        super().reorder(rows_B)
        if self.counts:
            rows = rows_B.tolist()
            self.counts = [self.counts[row] for row in rows]
            self.renewed = [self.renewed[row] for row in rows]

    def queries(
        self,
        generator: MetricGenerator,
        refresh: Refresh,
        x_BMD: Tensor,
        x_BHMK: Tensor,
        key_mask: Tensor | None,
    ) -> Tensor:
        """The tokens of a step under their metrics, which takes the step into the state.

        Args:
            generator: of the metrics, adaptive.
            refresh: which tokens have a new metric.
            x_BMD: tokens of the step, zeros where masked.
            x_BHMK: the same, split into heads.
            key_mask: bool (B, M), True = real token. None: every token is real.

        Returns:
            Tensor (B, H, M, K).
        """
        mean_BMD, sum_BMD, count_BM = continued_mean(x_BMD, key_mask, self.sum_BD, self.count_B)
        self.sum_BD, self.count_B = sum_BMD[:, -1], count_BM[:, -1]
        if refresh.is_exact:
            return generator.queries(x_BHMK, mean_BMD)
        rows = self.renewals(refresh, self.host_counts(count_BM, key_mask))
        before = self.maps
        self.renew(generator, mean_BMD, [renewals[-1] for renewals in rows if renewals])
        if not self.maps:  # not one real token so far
            return torch.zeros_like(x_BHMK)
        q_BHMK = generator.under(x_BHMK, self.maps)
        late = [renewals[0] for renewals in rows if renewals and renewals[0][1] > 0]
        if late and before:
            old_BHMK = generator.under(x_BHMK, before)
            for row, first in late:
                q_BHMK[row, :, :first] = old_BHMK[row, :, :first]
        for renewals in rows:
            self.fill_between(generator, mean_BMD, x_BHMK, renewals, q_BHMK)
        return q_BHMK

    def host_counts(self, count_BM: Tensor, key_mask: Tensor | None) -> list[list[int]]:
        """Number of real tokens up to and including each new one, on the host."""
        n_batch, n_new = count_BM.shape
        self.counts = self.counts or [0] * n_batch
        self.renewed = self.renewed or [0] * n_batch
        if key_mask is None:
            rows = [list(range(count + 1, count + n_new + 1)) for count in self.counts]
        else:
            rows = count_BM.tolist()
        self.counts = [row[-1] for row in rows]
        return rows

    def renewals(self, refresh: Refresh, counts: Sequence[Sequence[int]]) -> list[list[Renewal]]:
        """The tokens of the step that have a new metric, row by row."""
        rows: list[list[Renewal]] = []
        for row, row_counts in enumerate(counts):
            rows.append([])
            due = refresh.after(self.renewed[row]) if self.renewed[row] else 1
            for place, count in enumerate(row_counts):
                if count == due:
                    rows[-1].append((row, place))
                    self.renewed[row], due = due, refresh.after(due)
        return rows

    def renew(
        self, generator: MetricGenerator, mean_BMD: Tensor, renewals: Sequence[Renewal]
    ) -> None:
        """Put the metrics of these tokens in the place of their rows' current ones."""
        if not renewals:
            return
        rows_J, places_J = torch.tensor(renewals, device=mean_BMD.device).unbind(1)
        new = generator.maps(mean_BMD[rows_J, places_J])
        old = self.maps or tuple(m.new_zeros(len(mean_BMD), *m.shape[1:]) for m in new)
        self.maps = tuple(
            kept.index_copy(0, rows_J, made) for kept, made in zip(old, new, strict=True)
        )

    def fill_between(
        self,
        generator: MetricGenerator,
        mean_BMD: Tensor,
        x_BHMK: Tensor,
        renewals: Sequence[Renewal],
        q_BHMK: Tensor,
    ) -> None:
        """Set the queries of a row from its first to its last new metric in the step."""
        if len(renewals) < 2:
            return
        row = renewals[0][0]
        places = [place for _, place in renewals]
        runs = [after - start for start, after in pairwise(places)]
        tokens = slice(places[0], places[-1])
        index_J = torch.tensor(places[:-1], device=mean_BMD.device)
        contexts_1JD = mean_BMD[row].index_select(0, index_J).unsqueeze(0)
        q_BHMK[row, :, tokens] = generator.queries(
            x_BHMK[row : row + 1, :, tokens], contexts_1JD, runs
        )[0]
