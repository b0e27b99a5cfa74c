"""Data-adaptive Mahalanobis metric learning for cross-head attention (Duan et al. 2026).

Shapes: B batch, N tokens, D width, H heads, K head width.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch import Tensor

from damcha_core.attention.cache import AttentionCache
from damcha_core.attention.carry import Carry
from damcha_core.attention.generator import MetricGenerator
from damcha_core.attention.layer import AttentionLayer, merge_heads
from damcha_core.attention.masking import masked_attention
from damcha_core.attention.metric_cache import MetricCache
from damcha_core.attention.pooling import prefix_mean, token_mean
from damcha_core.attention.projections import input_projection, output_projection
from damcha_core.attention.refresh import Packing, Refresh
from damcha_core.attention.stack import AttentionStack
from damcha_core.catalog.refresh_schedule import RATIO
from damcha_core.errors import ShapeError


class DamchaAttention(AttentionLayer):
    """out = concat_i(softmax(X_i m_i X_i^T / sqrt(K)) V_i) W_O + b_O, V = X W_V + b_V.

    X_i is the i-th slice of K features of the input. There is no query and no key projection: the
    metric m_i, generated from the mean of the real tokens, takes their place. A causal layer
    generates one for each query, from the mean of the real tokens up to and including it, or, with
    a `refresh`, one for some of them, which those that follow use as well (see
    `RefreshSchedule`). A layer that is not causal has one metric for all queries, and refresh has
    no effect on it. Duan et al. 2026, section 2.

    Args:
        d_model: width D of the tokens, a multiple of n_heads.
        n_heads: number of heads H, at least 1.
        generator: a generator that something else owns, for example one for several layers. It is
            not registered here: whoever made it has to. None: the layer makes and owns one.
        dropout: probability with which an attention weight is dropped in training, in [0, 1).
        refresh: after how many real tokens a causal layer makes a new metric: "token", a whole
            number from 1, or "geometric".
        refresh_ratio: ratio of the geometric schedule, above 1.
        options: arguments of `MetricGenerator` for the generator the layer makes.

    Raises:
        ValueError: a size or an option is not valid.
        TypeError: options come together with a generator.
        ShapeError: the generator has another d_model or n_heads.
    """

    cache_class = MetricCache
    generator: MetricGenerator

    def __init__(
        self,
        d_model: int,
        n_heads: int,
        *,
        generator: MetricGenerator | None = None,
        dropout: float = 0.0,
        refresh: str | int = "token",
        refresh_ratio: float = RATIO,
        **options: Any,
    ) -> None:
        super().__init__(d_model, n_heads, dropout=dropout)
        self.refresh = Refresh(refresh, refresh_ratio)
        self._given_context: Tensor | None = None
        if generator is None:
            self.generator = MetricGenerator(d_model, n_heads, **options)
        else:
            if options:
                raise TypeError(f"a given generator has its own {', '.join(sorted(options))}")
            self.borrow(generator)
        self.value = input_projection(d_model, n_parts=1)
        self.out = output_projection(d_model)

    def borrow(self, generator: MetricGenerator) -> None:
        """Use a generator that something else owns and registers, in place of the present one.

        Assigning to `generator` instead makes the layer its owner.

        Raises:
            ShapeError: the generator has another d_model or n_heads.
        """
        if (generator.d_model, generator.n_heads) != (self.d_model, self.n_heads):
            raise ShapeError(
                f"the generator is for d_model {generator.d_model} and {generator.n_heads} heads, "
                f"the layer has d_model {self.d_model} and {self.n_heads} heads"
            )
        self._modules.pop("generator", None)
        # Past Module.__setattr__, which would register it here as well as at its owner.
        self.__dict__["generator"] = generator

    def attend(
        self,
        x_BND: Tensor,
        key_mask: Tensor | None,
        is_causal: bool,
        carry: Carry | None,
        cache: AttentionCache | None,
    ) -> Tensor:
        if cache is not None and self._given_context is not None:
            raise ValueError(
                "a given context is for whole sequences, not for decoding with a cache"
            )
        x_BHNK = self.split_heads(x_BND)
        keys_BHNK, values_BHNK = x_BHNK, self.split_heads(self.value(x_BND))
        if isinstance(cache, MetricCache) and not self.generator.is_static:
            q_BHNK = cache.queries(self.generator, self.refresh, x_BND, x_BHNK, key_mask)
        else:
            q_BHNK = self.queries(x_BND, key_mask, is_causal)
        if isinstance(cache, MetricCache):
            keys_BHNK, values_BHNK, key_mask = cache.append(keys_BHNK, values_BHNK, key_mask)
        heads_BHNK = masked_attention(
            q_BHNK,
            keys_BHNK,
            values_BHNK,
            key_mask=key_mask,
            is_causal=is_causal,
            dropout=self.dropout if self.training else 0.0,
        )
        out_BND: Tensor = self.out(merge_heads(heads_BHNK))
        return out_BND

    def queries(self, x_BND: Tensor, key_mask: Tensor | None, is_causal: bool) -> Tensor:
        """The tokens of whole sequences under their metrics, (B, H, N, K)."""
        x_BHNK = self.split_heads(x_BND)
        if self.generator.is_static:
            return self.generator.queries(x_BHNK, None)
        if self._given_context is not None:
            return self.generator.queries(x_BHNK, self._given_context)
        if not is_causal or self.refresh.is_exact:
            return self.generator.queries(x_BHNK, self.context(x_BND, key_mask, is_causal))
        packing = None if key_mask is None else Packing(key_mask)
        packed_BND = x_BND if packing is None else packing.pack(x_BND)
        q_BHNK = self.generator.queries(
            self.split_heads(packed_BND),
            self.refresh.contexts(packed_BND),
            self.refresh.runs(x_BND.shape[1]),
        )
        return q_BHNK if packing is None else packing.unpack(q_BHNK)

    def context(self, x_BND: Tensor, key_mask: Tensor | None, is_causal: bool) -> Tensor:
        """What the metrics are generated from: (B, D), or causal (B, N, D)."""
        if not is_causal:
            return token_mean(x_BND, key_mask)
        if self.refresh.is_exact:
            return prefix_mean(x_BND, key_mask)
        return self.refresh.context_of_tokens(x_BND, key_mask)

    @contextmanager
    def given_context(self, context: Tensor) -> Iterator[None]:
        """Generate the metrics from this context instead of the layer's own, for inspection.

        Args:
            context: of the shape that `context` has for the tokens to come: (B, D), or causal
                (B, N, D).

        Raises:
            ValueError: on a pass with a cache in the meantime.
        """
        self._given_context = context
        try:
            yield
        finally:
            self._given_context = None

    def head_metrics(
        self, x_BND: Tensor, *, key_mask: Tensor | None = None, is_causal: bool = False
    ) -> Tensor:
        """The metrics m_i that these tokens are compared under, for inspection.

        Args:
            x_BND: input of the layer.
            key_mask: bool (B, N), True = real token. None: every token is real.
            is_causal: True for the metrics of every query of a causal layer.

        Returns:
            Tensor (B, H, K, K), causal (B, N, H, K, K).

        Raises:
            ShapeError: x is not (B, N, d_model), or key_mask is not (B, N).
            TypeError: key_mask is not a bool tensor.
        """
        x_BND = self.check(x_BND, key_mask)
        return self.generator.head_metrics(self.context(x_BND, key_mask, is_causal))

    def metric_matrix(
        self, x_BND: Tensor, *, key_mask: Tensor | None = None, is_causal: bool = False
    ) -> Tensor:
        """M(X) for these tokens, for inspection; the head form of full holds none.

        Args:
            x_BND: input of the layer.
            key_mask: bool (B, N), True = real token. None: every token is real.
            is_causal: True for the M of every query of a causal layer.

        Returns:
            Tensor (B, D, D), causal (B, N, D, D).

        Raises:
            ShapeError: x is not (B, N, d_model), or key_mask is not (B, N).
            TypeError: key_mask is not a bool tensor.
            ValueError: the generator is the head form of full.
        """
        x_BND = self.check(x_BND, key_mask)
        return self.generator.metric_matrix(self.context(x_BND, key_mask, is_causal))


def build_damcha(
    d_model: int,
    n_heads: int,
    n_layers: int,
    *,
    dropout: float = 0.0,
    share: bool = True,
    refresh: str | int = "token",
    refresh_ratio: float = RATIO,
    **options: Any,
) -> AttentionStack:
    """The attentions of a stack of n_layers blocks.

    Args:
        d_model: width D of the tokens, a multiple of n_heads.
        n_heads: number of heads H, at least 1.
        n_layers: number of layers, at least 0.
        dropout: probability with which an attention weight is dropped in training, in [0, 1).
        share: True for one generator (or one static M) for all layers, False for one a layer.
        refresh: after how many real tokens a causal layer makes a new metric: "token", a whole
            number from 1, or "geometric".
        refresh_ratio: ratio of the geometric schedule, above 1.
        options: arguments of `MetricGenerator`: structure, output, source, init, lr_scale,
            body_lr_scale, rank, mlp_hidden.

    Raises:
        ValueError: a size or an option is not valid.
    """
    shared = MetricGenerator(d_model, n_heads, **options) if share else None
    own = {} if share else options
    layers = [
        DamchaAttention(
            d_model,
            n_heads,
            generator=shared,
            dropout=dropout,
            refresh=refresh,
            refresh_ratio=refresh_ratio,
            **own,
        )
        for _ in range(n_layers)
    ]
    return AttentionStack(layers=layers, shared=shared)
