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
    """Mean number of tokens of a sample.

    The patches of a picture, the same for all pictures; the length of a recall sequence, the same
    for all of them; for texts the length that the catalogue states for the task, because it
    depends on the data.
    """
    row = task_row(config.run.task)
    if row.recalls:
        return config.data.recall_length
    return row.mean_tokens or (config.data.image_size // config.model.patch_size) ** 2


def model_parameters(
    config: RunConfig, *, channels: int = 0, n_classes: int = 0, vocab_size: int = 0
) -> int:
    """Parameters of the whole model.

    Args:
        config: complete settings.
        channels: colour channels of the pictures, where the task has pictures.
        n_classes: number of classes, where the task classifies.
        vocab_size: number of tokens, where the task has texts or recalls.

    Returns:
        The stack; for pictures the patch embedding with its positions, and the head with, for
        reconstruction, the mask token; for texts and recall the embedding, which is the head too.

    Raises:
        UsageError: the attention is a control.
    """
    d_model, row = config.model.d_model, task_row(config.run.task)
    stack = stack_of(config).parameters()
    if row.has_vocabulary:
        return stack + vocab_size * d_model
    patch = config.model.patch_size**2 * channels
    embedding = (patch + 1 + mean_tokens(config)) * d_model
    n_outputs = patch if row.reconstructs else n_classes
    head = (d_model + 1) * n_outputs + (d_model if row.reconstructs else 0)
    return stack + embedding + head


def model_multiply_adds(
    config: RunConfig,
    *,
    channels: int = 0,
    n_classes: int = 0,
    vocab_size: int = 0,
    n_tokens: int = 0,
) -> int:
    """Forward multiply-adds of the whole model for one sample.

    Args:
        config: complete settings.
        channels: colour channels of the pictures, where the task has pictures.
        n_classes: number of classes, where the task classifies.
        vocab_size: number of tokens of the vocabulary, where the task has texts or recalls.
        n_tokens: length of the sample in tokens; 0: `mean_tokens`.

    Returns:
        The stack and, for pictures, the patch embedding and the head (a patch a token, or the
        classes once); for texts and recall the head at every token.

    Raises:
        UsageError: the attention is a control.
    """
    d_model, n_tokens = config.model.d_model, n_tokens or mean_tokens(config)
    row = task_row(config.run.task)
    stack = stack_of(config).multiply_adds(n_tokens, is_causal=config.model.causal)
    if row.has_vocabulary:
        return stack + n_tokens * d_model * vocab_size
    patches = n_tokens * config.model.patch_size**2 * channels * d_model
    head = patches if row.reconstructs else d_model * n_classes
    return stack + patches + head
