"""Parameters and multiply-adds of the model of a run, from its settings alone.

Settings of a control are first to be turned into those of the model that it builds
(`damcha_core.config.controls.as_built`).
"""

from __future__ import annotations

from damcha_core.catalog.attentions import attention_row
from damcha_core.catalog.stack_size import Stack
from damcha_core.catalog.tasks import task_row
from damcha_core.config.schema import RunConfig


def stack_of(config: RunConfig) -> Stack:
    """The Transformer stack of a run.

    Args:
        config: complete settings.

    Raises:
        UsageError: the attention is a control.
    """
    model = config.model
    return Stack(
        row=attention_row(config.attention.name),
        options=config.attention.option_values(),
        d_model=model.d_model,
        n_heads=model.n_heads,
        d_ff=model.d_ff,
        n_layers=model.n_layers,
    )


def mean_tokens(config: RunConfig) -> int:
    """Mean number of tokens of a sample: the patches of a picture, the same for all pictures."""
    return (config.data.image_size // config.model.patch_size) ** 2


def model_parameters(config: RunConfig, *, channels: int, n_classes: int = 0) -> int:
    """Parameters of the whole model.

    Args:
        config: complete settings.
        channels: colour channels of the pictures.
        n_classes: number of classes, where the task classifies.

    Returns:
        The stack, the patch embedding with its positions, and the head with, for reconstruction,
        the mask token.

    Raises:
        UsageError: the attention is a control.
    """
    d_model = config.model.d_model
    patch = config.model.patch_size**2 * channels
    embedding = (patch + 1 + mean_tokens(config)) * d_model
    reconstructs = task_row(config.run.task).reconstructs
    n_outputs = patch if reconstructs else n_classes
    head = (d_model + 1) * n_outputs + (d_model if reconstructs else 0)
    return stack_of(config).parameters() + embedding + head


def model_multiply_adds(config: RunConfig, *, channels: int, n_classes: int = 0) -> int:
    """Forward multiply-adds of the whole model for one sample of mean length.

    Args:
        config: complete settings.
        channels: colour channels of the pictures.
        n_classes: number of classes, where the task classifies.

    Returns:
        The stack, the patch embedding, and the head: a patch a token, or the classes once.

    Raises:
        UsageError: the attention is a control.
    """
    d_model, n_tokens = config.model.d_model, mean_tokens(config)
    patches = n_tokens * config.model.patch_size**2 * channels * d_model
    head = patches if task_row(config.run.task).reconstructs else d_model * n_classes
    stack = stack_of(config).multiply_adds(n_tokens, is_causal=config.model.causal)
    return stack + patches + head
