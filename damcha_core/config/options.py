"""The options that an attention layer has of its own; they stand beside `attention.name`."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from damcha_core.catalog.damcha import BODY_LR_SCALE, LR_SCALE
from damcha_core.config.values import Settings, Widths

LARGEST_D_FF = 262_144
LARGEST_N_LAYERS = 1024


class DamchaOptions(Settings):
    """How DAMCHA makes its metric (Duan et al. 2026, section 2)."""

    structure: Literal["full", "symmetric", "psd", "low_rank", "diagonal", "block_diagonal"] = (
        Field(default="full", description="Structure of the metric M.")
    )
    source: Literal["adaptive", "static"] = Field(
        default="adaptive",
        description="Where M comes from: a network fed with the pooled context, or a parameter.",
    )
    share: bool = Field(
        default=True,
        description="One generator (or one static M) for the whole stack, not one a layer.",
    )
    init: Literal["identity", "random"] = Field(
        default="random",
        description="Start: random, as torch draws the weights of a linear layer, or every head's "
        "metric the identity (plain dot products).",
    )
    lr_scale: Literal["matrix"] | Annotated[float, Field(gt=0, le=1000)] = Field(
        default=LR_SCALE,
        description="Factor of the learning rate of what emits M, the last layer of the generator "
        'or a static M. "matrix": the whole M\'s step, n_heads for output head of full and 1 '
        "elsewhere.",
    )
    body_lr_scale: float = Field(
        default=BODY_LR_SCALE,
        gt=0,
        le=1000,
        description="Factor of the learning rate of the generator before its last layer.",
    )
    output: Literal["head", "matrix"] = Field(
        default="head",
        description="What the generator emits under structure full: the metrics of the heads, or "
        "the whole M (the same function, n_heads times larger).",
    )
    rank: int = Field(
        default=0,
        ge=0,
        le=65536,
        description="Columns of the factors of psd and low_rank; 0: the head width for psd, half "
        "of it for low_rank.",
    )
    mlp_hidden: Widths = Field(
        default=(256, 512), description="Widths of the hidden layers of the generator, in features."
    )
    refresh: Literal["token", "geometric"] | Annotated[int, Field(ge=1, le=1_000_000)] = Field(
        default="token",
        description="When a causal layer makes a new metric: for every token, every that many "
        "tokens, or at token counts that grow by a ratio. No effect where model.causal is false.",
    )
    refresh_ratio: float = Field(
        default=1.25,
        gt=1,
        le=1000,
        description="Ratio of one token count with a new metric to the one before it, under "
        "refresh geometric.",
    )


class MatchedOptions(DamchaOptions):
    """Which DAMCHA a control of the same size is matched to, and the size that does it."""

    matched_d_ff: int = Field(
        default=0,
        ge=0,
        le=LARGEST_D_FF,
        description="Width of the feed-forward part that the control is built with; 0: computed "
        "when the run file is read. model.d_ff is that of the model it is matched to.",
    )


class FlopsOptions(MatchedOptions):
    """Which DAMCHA a control of the same cost is matched to, and the sizes that do it."""

    matched_n_layers: int = Field(
        default=0,
        ge=0,
        le=LARGEST_N_LAYERS,
        description="Blocks that the control is built with; 0: computed when the run file is read. "
        "model.n_layers is that of the model it is matched to.",
    )


class CollaborativeOptions(Settings):
    """The key and query space that collaborative attention shares among its heads."""

    shared_dim: int = Field(
        default=0,
        ge=0,
        le=65536,
        description="Width of the key and query space that all heads share, in features; "
        "0: d_model.",
    )


class GatedOptions(Settings):
    """How finely gated attention gates the outputs of its heads."""

    gate: Literal["headwise", "elementwise"] = Field(
        default="headwise",
        description="One gate for each head of a token, or one for each feature of each head.",
    )
