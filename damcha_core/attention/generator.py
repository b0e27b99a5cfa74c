"""Metrics of the heads, generated from a context or learned as they are.

Shapes: B batch, N tokens, J runs of tokens that share a metric, D width, H heads, K head width,
E emitted numbers, S inputs of the last layer; a map is one of G (H, or 1 for all heads) with A rows
and B columns.
"""

from __future__ import annotations

import copy
import itertools
import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

from damcha_core.attention.generated_matmul import generated_matmul
from damcha_core.attention.parameter_groups import Factors
from damcha_core.attention.refresh import run_of_token
from damcha_core.attention.structures import make_structure
from damcha_core.catalog.damcha import BODY_LR_SCALE, LR_SCALE

SOURCES = ("adaptive", "static")
INITS = ("identity", "random")


class MetricGenerator(nn.Module):
    """m_i = sum_j M_ij with M(X) = f(mean(X)), f an MLP with exact GELU between its layers.

    Source: Duan et al. 2026, section 2. The sum over j is linear, as the last layer of f is, so it
    is taken on that layer's weights and M is formed for inspection alone.

    Args:
        d_model: width D of the contexts, a multiple of n_heads.
        n_heads: number of heads H, at least 1.
        structure: "full", "symmetric", "psd", "low_rank", "diagonal" or "block_diagonal".
        output: form of full: "head" emits the H metrics m_i, "matrix" all of M. Both are one
            function class, and train alike under lr_scale "matrix".
        source: "adaptive" for the MLP, "static" for a parameter in place of its output.
        init: "random" is torch's default of a linear layer for the matrix form, and its row sum
            for the head form; a static M is taken as the weight of such a layer with D inputs.
            "identity" makes every m_i = I at first (a rank below K: its first R directions).
        lr_scale: step size of what emits M, the last layer or a static M: a number above 0 is the
            factor of its learning rate, "matrix" takes the factors under which the head form of
            full follows the matrix form (see `parameter_factors`).
        body_lr_scale: factor of the learning rate of f before its last layer, above 0.
        rank: number of columns of the factors of psd and low_rank; 0: K for psd, max(1, K // 2)
            for low_rank.
        mlp_hidden: widths of the hidden layers of f, at least one.

    Raises:
        ValueError: an argument is none of these.
    """

    def __init__(
        self,
        d_model: int,
        n_heads: int,
        *,
        structure: str = "full",
        output: str = "head",
        source: str = "adaptive",
        init: str = "random",
        lr_scale: str | float = LR_SCALE,
        body_lr_scale: float = BODY_LR_SCALE,
        rank: int = 0,
        mlp_hidden: Sequence[int] = (256, 512),
    ) -> None:
        super().__init__()
        if source not in SOURCES:
            raise ValueError(f"source must be one of {', '.join(SOURCES)}; got {source!r}")
        if init not in INITS:
            raise ValueError(f"init must be one of {', '.join(INITS)}; got {init!r}")
        if lr_scale != "matrix" and not _is_positive(lr_scale):
            raise ValueError(f"lr_scale must be 'matrix' or a number above 0, got {lr_scale!r}")
        if not _is_positive(body_lr_scale):
            raise ValueError(f"body_lr_scale must be a number above 0, got {body_lr_scale!r}")
        if not mlp_hidden or min(mlp_hidden) < 1:
            raise ValueError(
                f"mlp_hidden must list at least one width, each at least 1, got {mlp_hidden}"
            )
        self.d_model, self.n_heads = d_model, n_heads
        self.structure_name, self.output, self.source = structure, output, source
        self.lr_scale, self.body_lr_scale = lr_scale, float(body_lr_scale)
        self.structure = make_structure(structure, d_model, n_heads, output=output, rank=rank)
        n_numbers = self.structure.n_numbers
        if source == "static":
            self.static = nn.Parameter(torch.empty(self.structure.shape))
        else:
            widths = (d_model, *mlp_hidden)
            self.body = nn.Sequential()
            for n_in, n_out in itertools.pairwise(widths):
                self.body.append(nn.Linear(n_in, n_out))
                self.body.append(nn.GELU())
            self.last_weight = nn.Parameter(torch.empty(n_numbers, mlp_hidden[-1]))
            self.last_bias = nn.Parameter(torch.empty(n_numbers))
        self._fill(init)

    @property
    def is_static(self) -> bool:
        """Whether the metrics are parameters, so that no context is read."""
        return self.source == "static"

    @torch.no_grad()
    def _fill(self, init: str) -> None:
        numbers_E = self.static.view(-1) if self.is_static else self.last_bias
        if init == "identity":
            numbers_E.copy_(self.structure.identity())
            if not self.is_static:
                self.last_weight.zero_()
            return
        n_inputs = self.d_model if self.is_static else self.last_weight.shape[1]
        bound = 1.0 / math.sqrt(n_inputs)
        if not self.is_static:
            self.structure.fill_random(self.last_weight, bound)
        self.structure.fill_random(numbers_E, bound)

    def queries(
        self, x_BHNK: Tensor, context: Tensor | None, runs: Sequence[int] | None = None
    ) -> Tensor:
        """The tokens under the metric: x_i m_i, which is what a key is compared with.

        Args:
            x_BHNK: tokens split into heads.
            context: (B, D) one a sequence, (B, N, D) one a token, or (B, J, D) one a run; a static
                source ignores it.
            runs: number of tokens in each of the J runs, N in all.

        Returns:
            Tensor (B, H, N, K).

        Raises:
            ValueError: the source is adaptive and there is no context.
        """
        if self.is_static:
            return self.under(x_BHNK, self.structure.maps(self.static.flatten()))
        if context is None:
            raise ValueError("an adaptive generator needs a context")
        if context.dim() == 2:
            return self.under(x_BHNK, self.maps(context))
        hidden_BJS, x_BNHK = self.hidden(context), x_BHNK.transpose(1, 2)
        for weight_GABS, bias_GAB in self._last_maps():
            if not self.structure.elementwise:
                x_BNHK = generated_matmul(x_BNHK, hidden_BJS, weight_GABS, bias_GAB, runs)
                continue
            map_BNHK = linear(hidden_BJS, weight_GABS, bias_GAB)
            if runs is not None:
                map_BNHK = map_BNHK.index_select(1, run_of_token(runs, map_BNHK.device))
            x_BNHK = x_BNHK * map_BNHK
        return x_BNHK.transpose(1, 2)

    def maps(self, context: Tensor) -> tuple[Tensor, ...]:
        """The metrics as linear maps (..., G, A, B), applied one after the other; see `under`.

        Args:
            context: (..., D), any number of leading axes.
        """
        hidden_S = self.hidden(context)
        return tuple(linear(hidden_S, weight, bias) for weight, bias in self._last_maps())

    def under(self, x_BHNK: Tensor, maps: Sequence[Tensor]) -> Tensor:
        """The tokens under given maps, (G, A, B) for all sequences or (B, G, A, B)."""
        for map_GAB in maps:
            if self.structure.elementwise:
                x_BHNK = x_BHNK * map_GAB.unsqueeze(-2)
            else:
                x_BHNK = x_BHNK @ map_GAB
        return x_BHNK

    def hidden(self, context: Tensor) -> Tensor:
        """Input (..., S) of the last layer for contexts (..., D)."""
        hidden_S: Tensor = self.body(context.to(self.last_weight.dtype))
        return hidden_S

    def head_metrics(self, context: Tensor) -> Tensor:
        """The metrics m_i themselves.

        Args:
            context: (..., D), any number of leading axes.

        Returns:
            Tensor (..., H, K, K); a static source repeats its metrics over the leading axes.
        """
        if self.is_static:
            maps = tuple(
                m.expand(*context.shape[:-1], *m.shape)
                for m in self.structure.maps(self.static.flatten())
            )
        else:
            maps = self.maps(context)
        return self._product(maps)

    def identity_metrics(self) -> Tensor:
        """The metrics (H, K, K) that init = identity gives, whatever this generator began with."""
        numbers_E = self.structure.identity().to(next(self.parameters()))
        return self._product(self.structure.maps(numbers_E))

    def _product(self, maps: Sequence[Tensor]) -> Tensor:
        if self.structure.elementwise:
            return torch.diag_embed(maps[0])
        metrics_HKK = maps[0]
        for map_GAB in maps[1:]:
            metrics_HKK = metrics_HKK @ map_GAB
        return metrics_HKK

    def metric_matrix(self, context: Tensor) -> Tensor:
        """M itself, for inspection; nothing in a forward pass needs it.

        Args:
            context: (..., D), any number of leading axes.

        Returns:
            Tensor (..., D, D); block (i, j) holds the rows of head i and the columns of head j.

        Raises:
            ValueError: the head form of full, which holds no M.
        """
        if self.is_static:
            m_DD = self.structure.matrix(self.static.flatten())
            return m_DD.expand(*context.shape[:-1], *m_DD.shape)
        return self.structure.matrix(linear(self.hidden(context), self.last_weight, self.last_bias))

    def to_head(self) -> MetricGenerator:
        """The head form with the same metrics, exactly: the sum is taken on the weights.

        Raises:
            ValueError: this is not the matrix form of full.
        """
        if (self.structure_name, self.output) != ("full", "matrix"):
            raise ValueError(
                "only the matrix form of full converts to the head form, "
                f"this generator is {self.structure_name} with output {self.output!r}"
            )
        head = copy.deepcopy(self)
        head.output = "head"
        head.structure = make_structure("full", self.d_model, self.n_heads, output="head")
        if self.is_static:
            (summed_HKK,) = self.structure.maps(self.static.detach().flatten())
            head.static = nn.Parameter(summed_HKK)
        else:
            (weight_HKKS,) = self.structure.maps(self.last_weight.detach())
            (bias_HKK,) = self.structure.maps(self.last_bias.detach())
            head.last_weight = nn.Parameter(weight_HKKS.flatten(0, 2))
            head.last_bias = nn.Parameter(bias_HKK.flatten())
        return head

    def _last_maps(self) -> list[tuple[Tensor, Tensor]]:
        """Weight (G, A, B, S) and bias (G, A, B) of each map; without B where it is a diagonal."""
        weights = self.structure.maps(self.last_weight)
        biases = self.structure.maps(self.last_bias)
        return list(zip(weights, biases, strict=True))

    def extra_repr(self) -> str:
        rank = f", rank={self.structure.rank}" if self.structure.rank else ""
        return f"structure={self.structure_name}, output={self.output}, source={self.source}{rank}"

    def parameter_factors(self) -> dict[str, Factors]:
        """Factors of what emits M, as `lr_scale` says, and of the layers before it.

        Under "matrix" the head form of full follows the AdamW trajectory of the matrix form: a
        number that stands for H entries of M moves as the sum of those entries would.
        """
        if self.lr_scale == "matrix":
            n_blocks = self.structure.row_sum
            last = Factors(lr=n_blocks, decay=1.0 / n_blocks, norm=n_blocks)
        else:
            last = Factors(lr=float(self.lr_scale))
        if self.is_static:
            return {"static": last}
        body = Factors(lr=self.body_lr_scale)
        names = (f"body.{name}" for name, _ in self.body.named_parameters())
        return {**dict.fromkeys(names, body), "last_weight": last, "last_bias": last}

    def undecayed_parameters(self) -> tuple[str, ...]:
        """Names of the own parameters that weight decay leaves alone."""
        return ("static",) if self.is_static else ("last_bias",)


def _is_positive(value: str | float) -> bool:
    if isinstance(value, bool | str):
        return False
    return math.isfinite(value) and value > 0


def linear(hidden_S: Tensor, weight_ES: Tensor, bias_E: Tensor) -> Tensor:
    """Linear layer whose output axis is an array: (..., S) to (..., *E)."""
    flat_E = functional.linear(
        hidden_S, weight_ES.reshape(-1, weight_ES.shape[-1]), bias_E.reshape(-1)
    )
    return flat_E.view(*hidden_S.shape[:-1], *bias_E.shape)
