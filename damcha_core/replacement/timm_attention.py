"""In place of the attention in the blocks of timm's vision transformers.

timm itself is not imported: a module is known by the path of its class.

Shapes: B batch, H heads, N tokens, D width.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from damcha_core.replacement.masks import contract_masks, open_places
from damcha_core.replacement.stand_in import Sizes, StandIn

PATHS = frozenset({"timm.layers.attention.Attention", "timm.models.vision_transformer.Attention"})
"""Where the class is in present and in older versions."""


class TimmStandIn(StandIn):
    """Has the call of timm's Attention, and keeps its dropout behind the projection.

    What else that attention had goes with it: normalised queries and keys, a norm before the
    projection, a gate.
    """

    kind = "timm's ViT attention"

    @classmethod
    def stands_for(cls, module: nn.Module) -> bool:
        return f"{type(module).__module__}.{type(module).__qualname__}" in PATHS

    @classmethod
    def sizes(cls, module: nn.Module) -> Sizes:
        original: Any = module
        return Sizes(original.qkv.in_features, original.num_heads, original.attn_drop.p)

    @classmethod
    def objection(cls, module: nn.Module) -> str:
        original: Any = module
        d_model, n_outputs = original.qkv.in_features, original.proj.out_features
        if d_model != n_outputs:
            return f"it makes tokens of width {n_outputs} from tokens of width {d_model}"
        if d_model % original.num_heads:
            return f"its {original.num_heads} heads do not divide its width {d_model}"
        return ""

    def adopt(self, module: nn.Module) -> None:
        original: Any = module
        self.num_heads = original.num_heads
        self.proj_drop: nn.Module = original.proj_drop

    def forward(
        self, x: Tensor, attn_mask: Tensor | None = None, is_causal: bool = False
    ) -> Tensor:
        """Attend as timm's Attention does.

        Args:
            x: tokens (B, N, D).
            attn_mask: broadcast to (B, H, N, N), True, or 0, = allowed; a mask of tokens, causal,
                or both, the same in all heads.
            is_causal: True lets a token see itself and earlier tokens alone.

        Returns:
            Tokens (B, N, D).

        Raises:
            UsageError: the mask is of another kind.
        """
        open_BHNN = None
        if attn_mask is not None:
            open_BHNN = open_places(attn_mask, true_means_open=True, place=self.name)
            open_BHNN = open_BHNN[(None,) * (4 - open_BHNN.dim())]
            n_tokens = x.shape[1]
            open_BHNN = open_BHNN.expand(*open_BHNN.shape[:2], n_tokens, n_tokens)
        masks = contract_masks(open_BHNN, None, is_causal=is_causal, place=self.name)
        out_BND: Tensor = self.proj_drop(self.attend(x, *masks))
        return out_BND
