"""Batch files that are cut, flipped, nested or swollen end in one plain line, not in a crash."""

from __future__ import annotations

import pickle
import resource
import struct

import numpy as np
import pytest

from damcha_core.data.batch_file import MAX_FILE_BYTES, read_batch_file
from damcha_core.errors import DataError

# A pair is handed to a call, fetched back and put into the next pair.
CHAINED = b"q\x00cnumpy.core.multiarray\n_reconstruct\nh\x00N\x86q\x00Rh\x00"


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"no pickle at all",
        b"\x80\x02].",
        b"\x80\x02}.trailing is fine"[:3],
        b"\x80\x02}K\x01K\x02s.",
        b"\x80\x02}U\x01\xffK\x02s.",
        b"\x80\x05\x8e" + struct.pack("<Q", 10 * 2**30) + b"short.",
        b"\x80\x02T" + struct.pack("<i", -5) + b"abc.",
        b"\x80\x02}r\xff\xff\xff\x7f.",
        b"\x80\x02" + b"]" * 5000 + b"a" * 4999 + b".",
        b"\x80\x02" + b"(" * 100_000 + b"t" * 100_000 + b".",
        b"\x80\x02N" + b"\x85" * 100_000 + b".",
        b"\x80\x02}" + b"N" * 4_100_000 + b".",
        b"\x80\x02}N" + b"N\x86" * 500_000 + b"K\x01s.",
        b"\x80\x02}N" + CHAINED * 50_000 + b"K\x01s.",
        b"\x80\x02}}}s.",
        b"\x80\xff}.",
        b"\x80\x02h\x07.",
        b"}}\x85K\x01s.",
    ],
)
def test_damaged_and_swollen_files(tmp_path, content):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    path = tmp_path / "data_batch_1"
    path.write_bytes(content)
    with pytest.raises(DataError, match="is no batch file") as caught:
        read_batch_file(path)
    assert str(path) in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown < 200_000, "kilobytes"


def test_too_large_a_file_is_not_read(tmp_path):
    path = tmp_path / "data_batch_1"
    with path.open("wb") as file:
        file.truncate(MAX_FILE_BYTES + 1)
    with pytest.raises(DataError, match="too many for a batch file"):
        read_batch_file(path)


def test_a_file_that_cannot_be_read(tmp_path):
    with pytest.raises(DataError, match="cannot be read"):
        read_batch_file(tmp_path / "nowhere")


def test_flipped_bits_and_cuts_are_refused_or_harmless(tmp_path):
    small = {b"data": np.arange(12, dtype=np.uint8).reshape(3, 4), b"labels": [1, 2, np.int64(3)]}
    random = np.random.RandomState(1)
    path = tmp_path / "data_batch_1"
    outcomes = {"read": 0, "refused": 0}
    for protocol in (2, 4, 5):
        content = pickle.dumps(small, protocol)
        damaged = [content[:end] for end in range(len(content))]
        for _ in range(150):
            flipped = bytearray(content)
            flipped[random.randint(len(content))] ^= 1 << random.randint(8)
            damaged.append(bytes(flipped))
        for case in damaged:
            path.write_bytes(case)
            try:
                assert isinstance(read_batch_file(path), dict)
                outcomes["read"] += 1
            except DataError:
                outcomes["refused"] += 1
    assert outcomes["refused"] > 500
