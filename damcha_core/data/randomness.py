"""Random numbers as a function of what they are for, never of what was drawn before.

Every draw comes from a counter-based generator (Philox) whose key is a hash of a purpose and of
a few whole numbers. Nothing is carried from draw to draw, so neither the number of data workers,
nor the composition of a batch, nor an interruption can change a result. The rule of the project:

- the order of an epoch: f(seed, epoch)
- augmentation and patch masks in training: f(seed, epoch, sample id)
- patch masks in evaluation: f(seed, sample id)

Only the raw 64-bit output is used downstream: NumPy keeps that stable between its versions,
which it does not promise for `permutation` or `integers`.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

_KEY_BYTES = 16


def stream_key(purpose: str, *numbers: int) -> bytes:
    """Key of the stream that belongs to a purpose and some whole numbers.

    Args:
        purpose: what the numbers are for, such as "order"; different purposes, other streams.
        numbers: what the draw depends on, each within 64 bits (-2**63 up to 2**63 - 1).

    Returns:
        16 bytes; (1,) and (1, 0) are different keys.

    Raises:
        ValueError: a number does not fit into 64 bits.
    """
    name = purpose.encode("utf-8")
    try:
        text = struct.pack(f"<q{len(numbers)}q", len(name), *numbers)
    except struct.error:
        raise ValueError(
            f"seeds, epochs and ids lie between -2**63 and 2**63 - 1, not {numbers}"
        ) from None
    return hashlib.blake2b(text + name, digest_size=_KEY_BYTES).digest()


def generator(purpose: str, *numbers: int) -> np.random.Generator:
    """A fresh generator at the start of the stream of `stream_key(purpose, *numbers)`.

    Raises:
        ValueError: a number does not fit into 64 bits.
    """
    key = np.frombuffer(stream_key(purpose, *numbers), dtype="<u8").astype(np.uint64)
    return np.random.Generator(np.random.Philox(key=key))


def raw_draws(purpose: str, rows: Sequence[tuple[int, ...]], n: int) -> NDArray[np.uint64]:
    """The first n raw 64-bit draws of many streams at once.

    Row i equals `generator(purpose, *rows[i]).bit_generator.random_raw(n)`; one generator is
    moved from key to key because making a new one for each sample costs more than the draws.

    Args:
        purpose: what the numbers are for.
        rows: the whole numbers of each stream.
        n: draws of each stream, at least 0.

    Returns:
        Draws (len(rows), n).

    Raises:
        ValueError: a number does not fit into 64 bits.
    """
    philox = np.random.Philox(key=0)
    # A Philox at its start has an exhausted buffer (position 4) and a counter of zero.
    start = philox.state
    draws = np.empty((len(rows), n), dtype=np.uint64)
    for i, numbers in enumerate(rows):
        key = np.frombuffer(stream_key(purpose, *numbers), dtype="<u8")
        start["state"]["key"] = key.astype(np.uint64)
        philox.state = start
        draws[i] = philox.random_raw(n)
    return draws


def torch_seed(purpose: str, *numbers: int) -> int:
    """Seed for torch.manual_seed or torch.Generator, between 0 and 2**63 - 1.

    Raises:
        ValueError: a number does not fit into 64 bits.
    """
    return int.from_bytes(stream_key(purpose, *numbers)[:8], "little") >> 1
