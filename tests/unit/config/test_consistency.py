"""Settings that do not go together, that cannot be trained, or that do less than they seem to."""

from __future__ import annotations

import pytest

from damcha_core.catalog.tasks import task_rows
from damcha_core.config.consistency import (
    conflicts,
    divisor,
    known_task,
    multiples,
    notices,
    training_problems,
)
from damcha_core.config.resolve import resolve, resolve_mapping
from damcha_core.config.schema import RunConfig, RunSection
from damcha_core.errors import ConfigError


def problems(**sections):
    with pytest.raises(ConfigError) as caught:
        resolve_mapping(sections)
    return [line.removeprefix("settings: ") for line in caught.value.problems]


def test_width_that_the_heads_do_not_divide():
    (line,) = problems(model={"d_model": 30, "n_heads": 4})
    assert "give a multiple, such as 28 or 32" in line
    (line,) = problems(model={"d_model": 3, "n_heads": 4})
    assert line.endswith("such as 4")
    assert resolve_mapping({"model": {"d_model": 31, "n_heads": 31}}).model.n_heads == 31


def test_heads_that_cannot_be_paired():
    settings = {"model": {"d_model": 15, "n_heads": 5}, "attention": {"name": "differential"}}
    (line,) = problems(**settings)
    assert line == (
        "model.n_heads = 5 is refused: differential takes its heads 2 at a time; give a multiple, "
        "such as 4 or 6"
    )
    settings["model"] = {"d_model": 30, "n_heads": 6}
    assert resolve_mapping(settings).model.n_heads == 6


def test_patch_that_does_not_divide_the_picture():
    (line,) = problems(run={"task": "images"}, model={"patch_size": 5})
    assert line.startswith(
        "data.image_size = 32 cannot be cut into patches of model.patch_size = 5"
    )
    assert line.endswith("give a divisor of 32, such as 4")


@pytest.mark.parametrize("row", task_rows(), ids=lambda row: row.name)
def test_pictures_of_a_fixed_size(row):
    if not row.image_size:
        sizes = {"run": {"task": row.name}, "data": {"image_size": 64}}
        assert resolve_mapping(sizes).data.image_size == 64
        return
    (line,) = problems(run={"task": row.name}, data={"image_size": 64})
    assert line == (
        f"data.image_size = 64 is refused: the pictures of task {row.name} have {row.image_size} "
        f"x {row.image_size} pixels; leave the key out"
    )


def test_a_mask_ratio_of_zero_is_valid_and_cannot_be_trained():
    """P61: eval and reconstruct may hide nothing; training on nothing is refused."""
    config = resolve_mapping({"data": {"mask_ratio": 0}})
    assert config.data.mask_ratio == 0
    (line,) = training_problems(config)
    assert line.startswith("data.mask_ratio = 0 hides no patch")
    for ratio in (1 / 64, 0.999, 1):
        assert training_problems(resolve_mapping({"data": {"mask_ratio": ratio}})) == []
    classes = {"run": {"task": "digits-cls"}, "data": {"mask_ratio": 0}}
    assert training_problems(resolve_mapping(classes)) == []
    for ratio in (-0.1, 1.5, float("nan")):
        (line,) = problems(data={"mask_ratio": ratio})
        assert line.endswith("give a number from 0 to 1")


def test_a_rank_that_restricts_nothing_is_a_notice():
    def lines(**attention):
        return notices(resolve_mapping({"attention": attention}))

    assert lines() == []
    assert lines(name="damcha-low-rank") == []
    assert lines(name="damcha-low-rank", rank=7) == []
    (line,) = lines(name="damcha-low-rank", rank=8)
    assert line == (
        "attention.rank = 8 restricts nothing: low_rank needs a rank below the head width 8"
    )
    assert lines(name="damcha-psd", rank=8) == []
    assert lines(name="mha") == []


def test_a_refresh_without_causality_is_a_notice():
    """Presets run on every task, so this is said and not refused."""
    settings = {"attention": {"name": "damcha-geometric"}}
    (line,) = notices(resolve_mapping(settings))
    assert line == (
        'attention.refresh = "geometric" has no effect with model.causal = false: one metric '
        "serves the whole sequence"
    )
    assert notices(resolve_mapping({**settings, "model": {"causal": True}})) == []
    (line,) = notices(resolve_mapping({"attention": {"refresh": 16}}))
    assert line.startswith("attention.refresh = 16 has no effect")


def test_label_smoothing_without_labels_is_a_notice():
    smoothing = {"train": {"label_smoothing": 0.1}}
    assert "label_smoothing" in notices(resolve_mapping(smoothing))[0]
    assert notices(resolve_mapping({**smoothing, "run": {"task": "digits-cls"}})) == []


def test_an_unknown_task_is_reported_elsewhere():
    assert known_task("none") is None
    assert list(conflicts(RunConfig(run=RunSection(task="none")))) == []


def test_suggested_numbers():
    assert multiples(30, 4) == "28 or 32"
    assert multiples(2, 4) == "4"
    assert divisor(32, 5) == 4
    assert divisor(8, 100) == 8
    assert divisor(7, 3) == 1


def test_one_patch_a_picture_cannot_be_half_hidden():
    with pytest.raises(ConfigError, match="leaves one patch a picture"):
        resolve(None, ["model.patch_size=8"])
    assert resolve(None, ["model.patch_size=8", "data.mask_ratio=1.0"]).data.mask_ratio == 1
    assert resolve(None, ["model.patch_size=8", "run.task=digits-cls"]).model.patch_size == 8
