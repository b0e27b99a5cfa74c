"""Which attentions a profile measures, and with which settings."""

from __future__ import annotations

from pathlib import Path

import pytest

from damcha_core.config.resolve import resolve
from damcha_core.errors import ConfigError, UsageError
from damcha_core.profiling.plan import (
    DEFAULT_BATCH,
    PUBLISHED_SIZE_TASK,
    parse_attentions,
    plan_candidates,
)


def options(name: str, **given: object) -> dict[str, object]:
    candidates = plan_candidates(modes=[True], **given)  # type: ignore[arg-type]
    return next(c.config.attention.option_values() for c in candidates if c.name == name)


def test_the_default_is_mha_and_damcha_at_the_published_size_in_both_modes() -> None:
    candidates = plan_candidates()
    assert [c.label for c in candidates] == [
        *("mha causal", "mha whole", "damcha causal", "damcha whole"),
    ]
    for candidate in candidates:
        stack = candidate.stack
        assert (stack.d_model, stack.n_heads, stack.d_ff, stack.n_layers) == (128, 8, 256, 4)
        assert candidate.config.train.batch_size == DEFAULT_BATCH
        assert candidate.config.run.threads == 1
        assert candidate.config.model.causal is candidate.is_causal
        assert candidate.config.model.dropout == 0


def test_the_task_that_lends_its_size_is_no_other(tmp_path: Path) -> None:
    assert resolve(flags={"run.task": PUBLISHED_SIZE_TASK}).model.d_ff == 256


def test_a_task_in_the_run_file_brings_its_own_size(tmp_path: Path) -> None:
    file = tmp_path / "run.toml"
    file.write_text('[run]\ntask = "digits"\n[train]\nbatch_size = 999\n[model]\nn_layers = 3\n')
    (candidate, *_) = plan_candidates(file)
    assert (candidate.stack.d_model, candidate.stack.n_layers) == (64, 3)
    assert candidate.config.train.batch_size == DEFAULT_BATCH
    (candidate, *_) = plan_candidates(file, ["train.batch_size=7"], {"run.threads": 2})
    assert (candidate.config.train.batch_size, candidate.config.run.threads) == (7, 2)


def test_a_run_file_of_a_text_task_is_profiled_in_both_modes(tmp_path: Path) -> None:
    file = tmp_path / "run.toml"
    file.write_text('[run]\ntask = "cldr"\n[attention]\nname = "dcmha"\n')
    labels = [candidate.label for candidate in plan_candidates(file)]
    assert labels == ["mha causal", "mha whole", "dcmha causal", "dcmha whole"]


def test_names_given_beat_the_run_file(tmp_path: Path) -> None:
    file = tmp_path / "run.toml"
    file.write_text('[attention]\nname = "dcmha"\n')
    labels = [c.label for c in plan_candidates(file, attentions=["damcha"], modes=[False])]
    assert labels == ["damcha whole"]


def test_an_option_goes_to_every_attention_that_it_says_something_to() -> None:
    names = ["mha", "damcha", "damcha-psd", "damcha-static"]
    sets = ["attention.mlp_hidden=[8]", "attention.rank=4"]
    given = {"attentions": names, "sets": sets}
    assert options("mha", **given) == {}
    assert options("damcha", **given)["mlp_hidden"] == (8,)
    assert options("damcha", **given)["rank"] == 0
    assert options("damcha-psd", **given)["rank"] == 4
    assert options("damcha-static", **given)["mlp_hidden"] == (256, 512)


@pytest.mark.parametrize(
    ("names", "setting", "words"),
    [
        (("mha",), "attention.rank=4", "none of the profiled attentions"),
        (("mha", "damcha"), "attention.rank=4", "no effect"),
        (("damcha-psd",), "attention.structure=full", "damcha-psd fixes"),
        (("mha", "damcha"), "attention.rank=-4", "refused"),
        (("mha", "damcha"), "model.n_heads=7", "model.n_heads = 7"),
        (("mha", "damcha"), "model.n_head=8", "n_heads"),
    ],
)
def test_an_option_that_says_nothing_to_any_is_refused(names, setting, words) -> None:
    with pytest.raises(ConfigError, match=words):
        plan_candidates(sets=[setting], attentions=names)


@pytest.mark.parametrize("control", ["mha-matched", "mha-flops"])
def test_a_control_is_refused_by_name(control: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=f"{control} is a control"):
        parse_attentions(f"mha,{control}")
    with pytest.raises(UsageError, match=f"{control} is a control"):
        plan_candidates(sets=[f"attention.name={control}"])


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("mha,dmcha", "did you mean dcmha"),
        ("mha,", "a name is empty"),
        ("", "a name is empty"),
        ("mha, damcha,mha", "names mha twice"),
    ],
)
def test_other_names_are_refused(text: str, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        parse_attentions(text)
