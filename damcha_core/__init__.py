"""DAMCHA: data-adaptive Mahalanobis metric learning for cross-head attention.

The public names are imported on first use, so that `import damcha_core` alone stays light:

    from damcha_core import TransformerPC, DamchaAttention, replace_attention
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from damcha_core.attention.damcha import DamchaAttention
    from damcha_core.models.conditional_lm import ConditionalLM
    from damcha_core.models.masked_image import MaskedImageModel
    from damcha_core.models.transformer import TransformerPC
    from damcha_core.models.vision_transformer import VisionTransformer
    from damcha_core.replacement.replace import replace_attention

__version__ = "0.1.0"
__all__ = [
    "ConditionalLM",
    "DamchaAttention",
    "MaskedImageModel",
    "TransformerPC",
    "VisionTransformer",
    "replace_attention",
]

_HOMES = {
    "ConditionalLM": "damcha_core.models.conditional_lm",
    "DamchaAttention": "damcha_core.attention.damcha",
    "MaskedImageModel": "damcha_core.models.masked_image",
    "TransformerPC": "damcha_core.models.transformer",
    "VisionTransformer": "damcha_core.models.vision_transformer",
    "replace_attention": "damcha_core.replacement.replace",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES])
