"""Encoded pairs as batches for a conditional language model.

Shape suffixes: B pairs, N tokens of the longest sequence less one.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset

from damcha_core.data.order import SampleKey
from damcha_core.data.text.encoded_pairs import EncodedPairs
from damcha_core.data.text.tokenizer import Tokenizer


class TextDataset(Dataset[dict[str, Tensor]]):
    """Sequences `<s> source <sep> target </s>`, padded at their end.

    A batch holds:

    - tokens: int64 (B, N), the sequences without their last token;
    - next_tokens: int64 (B, N), the token after each;
    - scored: bool (B, N), True where that is a token of the target or its end mark;
    - n_tokens: int64 (B,), tokens of each sequence, marks included;
    - ids: int64 (B,), the pairs.

    Padding comes after the text and the model is causal, so no real token can see it.

    Args:
        pairs: encoded with this tokenizer.
        tokenizer: gives the marks.
    """

    def __init__(self, pairs: EncodedPairs, tokenizer: Tokenizer) -> None:
        self.pairs = pairs
        self.marks = (tokenizer.bos_id, tokenizer.sep_id, tokenizer.eos_id)
        self.pad_id = tokenizer.pad_id

    def __len__(self) -> int:
        return len(self.pairs)

    def __getitems__(self, keys: Sequence[SampleKey]) -> dict[str, Tensor]:
        """The batch of some keys; the epoch changes nothing."""
        ids = [sample for _, sample in keys]
        bos, sep, eos = self.marks
        n_tokens_B = self.pairs.n_tokens[ids].astype(np.int64)
        n_source_B = self.pairs.n_source[ids].astype(np.int64)
        whole_BM = np.full((len(ids), n_tokens_B.max()), self.pad_id, dtype=np.int64)
        for row, sample in enumerate(ids):
            end, middle = n_tokens_B[row] - 1, n_source_B[row] + 1
            whole_BM[row, 0] = bos
            whole_BM[row, 1:middle] = self.pairs.source(sample)
            whole_BM[row, middle] = sep
            whole_BM[row, middle + 1 : end] = self.pairs.target(sample)
            whole_BM[row, end] = eos
        place_1N = np.arange(whole_BM.shape[1] - 1)[None]
        # The first token of the target follows <sep>, which follows <s> and the source.
        scored_BN = (place_1N > n_source_B[:, None]) & (place_1N < n_tokens_B[:, None] - 1)
        return {
            "tokens": torch.from_numpy(whole_BM[:, :-1].copy()),
            "next_tokens": torch.from_numpy(whole_BM[:, 1:].copy()),
            "scored": torch.from_numpy(scored_BN),
            "n_tokens": torch.from_numpy(n_tokens_B),
            "ids": torch.tensor(ids),
        }
