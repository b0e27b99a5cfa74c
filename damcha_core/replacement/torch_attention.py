"""In place of torch.nn.MultiheadAttention, used as self-attention.

Shapes: B batch, H heads, N tokens, D width; L is B H or 1.
"""

from __future__ import annotations

from typing import Any, cast

from torch import Tensor, nn

from damcha_core.errors import UsageError
from damcha_core.replacement.masks import contract_masks, open_places
from damcha_core.replacement.stand_in import Sizes, StandIn


class TorchStandIn(StandIn):
    """Has the call of torch.nn.MultiheadAttention; it has no attention weights to return.

    nn.TransformerEncoderLayer skips its attention module in evaluation, and computes from its
    weights, where some conditions hold. It asks `in_proj_bias` and `_qkv_same_embed_dim` first,
    which say here that it may not.
    """

    kind = "nn.MultiheadAttention"
    in_proj_bias = None
    _qkv_same_embed_dim = False

    @classmethod
    def stands_for(cls, module: nn.Module) -> bool:
        return isinstance(module, nn.MultiheadAttention)

    @classmethod
    def sizes(cls, module: nn.Module) -> Sizes:
        original = cast(nn.MultiheadAttention, module)
        return Sizes(original.embed_dim, original.num_heads, original.dropout)

    @classmethod
    def objection(cls, module: nn.Module) -> str:
        original = cast(nn.MultiheadAttention, module)
        if type(original).forward is not nn.MultiheadAttention.forward:
            return f"{type(original).__name__} computes something of its own"
        if not original._qkv_same_embed_dim:
            return "its keys and values have another width than its queries: cross-attention"
        if original.bias_k is not None or original.add_zero_attn:
            return "it adds a key and a value of its own (add_bias_kv or add_zero_attn)"
        return ""

    def adopt(self, module: nn.Module) -> None:
        original = cast(nn.MultiheadAttention, module)
        self.batch_first = original.batch_first
        # What code around an nn.MultiheadAttention may ask for.
        self.embed_dim = self.kdim = self.vdim = original.embed_dim
        self.num_heads, self.head_dim = original.num_heads, original.head_dim

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError as error:
            raise AttributeError(
                f"{error}: it stands for an nn.MultiheadAttention, has its weights in .attention, "
                "and cannot be computed from outside. Where nn.TransformerEncoder asks for them, "
                "hand all of it to replace_attention and not a part"
            ) from None

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Tensor | None = None,
        need_weights: bool = True,
        attn_mask: Tensor | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Tensor, None]:
        """Attend as torch.nn.MultiheadAttention does.

        Args:
            query: tokens (N, B, D), (B, N, D) with batch_first, or one sequence (N, D).
            key: the same tensor.
            value: the same tensor.
            key_padding_mask: (B, N), torch's way: True, or minus infinity, = not a real token.
            need_weights: no effect.
            attn_mask: (N, N) or (B H, N, N), True, or minus infinity, = blocked; causal or a mask
                of tokens, the same in all heads.
            average_attn_weights: no effect.
            is_causal: read where there is no attn_mask; that says it otherwise.

        Returns:
            Tokens in the shape of query, and None for the attention weights.

        Raises:
            UsageError: key or value is another tensor, or a mask is of another kind.
        """
        if key is not query or value is not query:
            raise UsageError(
                f"{self.name}: key and value are not the tensor that query is: cross-attention "
                "cannot be replaced; name it in skip"
            )
        if query.is_nested:
            raise UsageError(
                f"{self.name}: nested tensors are not supported; build nn.TransformerEncoder with "
                "enable_nested_tensor=False, or hand all of it to replace_attention"
            )
        one = query.dim() == 2
        x_BND = query.unsqueeze(0) if one else query
        if not (one or self.batch_first):
            x_BND = x_BND.transpose(0, 1)
        real_BN = None
        if key_padding_mask is not None:
            real_BN = open_places(key_padding_mask, true_means_open=False, place=self.name)
            real_BN = real_BN.view(-1, real_BN.shape[-1])
        open_BHNN = self.open_pairs(attn_mask, len(x_BND))
        is_causal = is_causal and attn_mask is None
        masks = contract_masks(open_BHNN, real_BN, is_causal=is_causal, place=self.name)
        out_BND = self.attend(x_BND, *masks)
        if one:
            return out_BND.squeeze(0), None
        return (out_BND if self.batch_first else out_BND.transpose(0, 1)), None

    def open_pairs(self, mask_LNN: Tensor | None, n_batch: int) -> Tensor | None:
        """The attention mask as (B, H, N, N) or (1, 1, N, N), True = allowed."""
        if mask_LNN is None:
            return None
        open_LNN = open_places(mask_LNN, true_means_open=False, place=self.name)
        if open_LNN.dim() == 2:
            return open_LNN[None, None]
        return open_LNN.view(n_batch, self.num_heads, *open_LNN.shape[1:])
