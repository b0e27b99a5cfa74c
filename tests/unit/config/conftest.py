"""Random valid configurations, and a clean environment."""

from __future__ import annotations

import pytest
from hypothesis import strategies as st

from damcha_core.config.resolve import resolve_mapping


@pytest.fixture(autouse=True)
def no_data_variable(monkeypatch):
    """The variable of whoever runs the tests must not reach them."""
    monkeypatch.delenv("DAMCHA_DATA", raising=False)


TEXT = st.text(st.characters(blacklist_categories=("Cc", "Cs")), max_size=20)
FLOATS = st.floats(0, 0.99, exclude_min=True)


@st.composite
def settings_tables(draw):
    """Sections of a valid run file, many keys of them given."""
    heads = draw(st.integers(1, 8))
    patch = draw(st.integers(1, 8))
    attention = draw(
        st.sampled_from(
            [
                {"name": "mha"},
                {"name": "collaborative", "shared_dim": draw(st.integers(0, 99))},
                {"name": "gated", "gate": draw(st.sampled_from(["headwise", "elementwise"]))},
                {"name": "damcha", "output": "matrix", "init": "random"},
                {"name": "damcha-psd", "rank": draw(st.integers(0, 99)), "share": False},
                {"name": "damcha-static-unshared"},
                {"name": "damcha", "structure": "low_rank", "mlp_hidden": [3, 5, 7]},
                {"name": "damcha", "refresh": draw(st.integers(1, 10**6))},
                {"name": "damcha-geometric", "refresh_ratio": draw(st.floats(1.01, 1000))},
                {"name": "mha-matched", "share": False},
            ]
        )
    )
    return {
        "run": {
            "task": draw(st.sampled_from(["images", "images-cls"])),
            "out": draw(TEXT),
            "seed": draw(st.integers(0, 2**63 - 1)),
            "device": draw(st.sampled_from(["auto", "cpu", "cuda:3"])),
            "deterministic": draw(st.booleans()),
        },
        "model": {
            "d_model": heads * draw(st.integers(1, 64)),
            "n_heads": heads,
            "dropout": draw(FLOATS),
            "patch_size": patch,
        },
        "attention": attention,
        "data": {
            "root": draw(TEXT),
            "image_size": patch * draw(st.integers(2, 64)),
            "mask_ratio": draw(st.floats(0, 1)),
        },
        "train": {
            "lr": draw(st.one_of(FLOATS, st.integers(1, 10), st.floats(1e-300, 1e-5))),
            "clip_norm": draw(st.floats(0, 1e6)),
            "max_steps": draw(st.integers(0, 10**9)),
            "precision": draw(st.sampled_from(["float32", "bfloat16", "float16", "float64"])),
        },
        "eval": {"split": draw(st.sampled_from(["valid", "test", "train"]))},
    }


@pytest.fixture(scope="session")
def configurations():
    """A hypothesis strategy of valid configurations."""
    return settings_tables().map(resolve_mapping)
