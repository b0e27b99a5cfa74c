"""The check that a model's scores are numbers."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from damcha_core.errors import NonFiniteError


def refuse_nan(log_p: NDArray[np.float64]) -> None:
    """Stop a search whose scores mean nothing.

    Args:
        log_p: log-probabilities of the most probable tokens.

    Raises:
        NonFiniteError: one of them is NaN, as after NaN or infinite logits.
    """
    if np.isnan(log_p).any():
        raise NonFiniteError(
            "the model's scores for the next token are NaN or infinite, so no text can be "
            "generated. Use a checkpoint from before the training diverged."
        )
