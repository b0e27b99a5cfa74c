"""Suite files: the shipped ones, and what is said about a bad one of the user's."""

from __future__ import annotations

import pytest

from damcha_core.catalog.attentions import attention_rows
from damcha_core.config.toml_text import parse_toml
from damcha_core.errors import ConfigError, UsageError
from damcha_core.experiments.suite import load_suite, read_suite, suite_names

SEVEN = ["mha", "talking-heads", "collaborative", "elliptical", "dcmha", "differential", "damcha"]
FOUR = ("cifar10", "cifar10-cls", "wmt", "commongen")


def problems_of(text: str) -> str:
    with pytest.raises(ConfigError) as caught:
        read_suite(parse_toml(text, "s.toml"), "s", "s.toml")
    return str(caught.value)


def test_the_study_is_seven_attentions_on_four_tasks():
    names = ("study", "ablations", "comparison", "diagnostics", "diagnostics-heads", "scaling")
    assert suite_names() == names
    study = load_suite("study")
    assert (list(study.attentions), study.tasks) == (SEVEN, FOUR)


def test_the_ablations_are_every_preset_of_the_catalogue_and_the_controls():
    suite = load_suite("ablations")
    presets = {row.name for row in attention_rows() if row.name.startswith("damcha")}
    assert set(suite.attentions) == presets | {"mha", "mha-matched", "mha-flops"}
    assert suite.tasks == FOUR


def test_the_scaling_has_three_widths_and_three_depths():
    suite = load_suite("scaling")
    assert suite.grid == {"model.d_model": [64, 128, 256], "model.n_layers": [2, 4, 8]}
    assert set(suite.attentions) == {"damcha", "mha", "mha-matched", "mha-flops"}


def test_the_comparison_is_the_study_and_the_controls():
    study, suite = load_suite("study"), load_suite("comparison")
    assert list(suite.attentions) == [*SEVEN, "mha-matched", "mha-flops", "damcha-geometric"]
    assert (suite.tasks, suite.budgets) == (study.tasks, study.budgets)


def test_the_budget_of_a_tuning_is_for_every_built_in_task_of_the_study():
    budgets = load_suite("study").budgets
    assert set(budgets["tune"]) == set(budgets["small"])


def test_a_suite_may_take_over_a_shipped_one():
    document = {"extends": "study", "attentions": ["mha"]}
    mine, study = read_suite(document, "mine", "mine.toml"), load_suite("study")
    assert (mine.name, mine.attentions) == ("mine", ("mha",))
    assert (mine.tasks, mine.budgets) == (study.tasks, study.budgets)
    own = {"small": {"digits": {"train.epochs": 1}}}
    assert read_suite({**document, "budget": own}, "mine", "mine.toml").budgets == own


def test_the_diagnostics_ask_every_attention_of_the_study_for_its_look_ups():
    pairs, heads = load_suite("diagnostics"), load_suite("diagnostics-heads")
    assert pairs.grid == {"data.n_pairs": [4, 8, 16, 32]}
    assert heads.grid == {"model.n_heads": [2, 4, 8]}
    for suite in (pairs, heads):
        assert suite.tasks == ("recall",)
        assert list(suite.attentions) == [*SEVEN, "damcha-geometric", "damcha-static"]


def test_settings_may_be_dotted_or_nested(tmp_path):
    file = tmp_path / "mine.toml"
    file.write_text(
        'tasks = ["digits"]\nattentions = ["mha"]\n'
        '[budget.tiny.digits]\n"train.epochs" = 1\nmodel.d_model = 16\n'
        '[[override]]\nseed = 1\nset = { train.lr = 0.1, "train.clip_norm" = 2 }\n',
        encoding="utf-8",
    )
    suite = load_suite(str(file))
    assert suite.name == "mine"
    assert suite.budgets == {"tiny": {"digits": {"train.epochs": 1, "model.d_model": 16}}}
    assert suite.overrides[0].settings == {"train.lr": 0.1, "train.clip_norm": 2}
    assert suite.overrides[0].selects("digits", "mha", 1)
    assert not suite.overrides[0].selects("digits", "mha", 0)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("studdy", "did you mean study?"),
        ("x", "known: study, ablations, comparison, diagnostics, diagnostics-heads, scaling"),
    ],
)
def test_an_unknown_suite_is_refused_with_the_known_ones(name, words):
    with pytest.raises(UsageError, match=words):
        load_suite(name)


GOOD = 'tasks = ["digits"]\nattentions = ["mha"]\n'


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "tasks is missing"),
        ('extends = "studdy"\n', "did you mean study?"),
        ("extends = 3\n", "extends = 3 is refused: give the name of a shipped suite"),
        ('extends = "study"\nx = 1\n', "there is no key x"),
        ("tasks = 3\nattentions = []\n", "attentions = [] is refused: give a list of names"),
        ('tasks = ["digts"]\nattentions = ["mha"]\n', "did you mean digits?"),
        ('tasks = ["digits"]\nattentions = ["mah"]\n', "did you mean mha?"),
        ('tasks = ["digits", "digits"]\nattentions = ["mha"]\n', "tasks names digits twice"),
        (GOOD + "atentions = []\n", "there is no key atentions; did you mean attentions?"),
        (GOOD + "[gird]\n", "did you mean grid?"),
        (GOOD + "summary = 3\n", "give one line of text"),
        (GOOD + '[grid]\n"model.d_modle" = [1]\n', "did you mean model.d_model?"),
        (GOOD + '[grid]\n"model.d_model" = 1\n', "give a list"),
        (GOOD + '[grid]\n"model.d_model" = [8, 8]\n', "has a value twice"),
        (GOOD + '[grid]\n"run.seed" = [8]\n', "run.seed is refused: --seeds settles it"),
        (GOOD + '[[override]]\nset = { learning_rate = 1 }\n', "did you mean lr, under [train]"),
        (GOOD + '[[override]]\nattention = "mha"\n', "override 1: set is missing"),
        (GOOD + '[[override]]\nattention = "dcmha"\nset = {}\n', "known: mha"),
        (GOOD + '[[override]]\nseed = -1\nset = {}\n', "seed = -1 is refused"),
        (GOOD + '[[override]]\nsets = {}\n', "did you mean set?"),
        (GOOD + "override = 3\n", "write [[override]]"),
        (GOOD + "[budget]\nsmall = 3\n", "[budget.small] holds tables by task"),
        (GOOD + "[budget.small.digit]\n", "did you mean digits?"),
        (
            GOOD + '[grid]\n"train.lr" = [1]\n[[override]]\nset = {"train.lr" = 2}\n',
            "override sets train.lr, which [grid] varies",
        ),
    ],
)  # fmt: skip
def test_a_bad_suite_file_is_refused_in_plain_words(text, words):
    said = problems_of(text)
    assert words in said
    assert all(line.startswith("s.toml") for line in said.split("\n"))


def test_all_problems_are_reported_at_once():
    said = problems_of('tasks = ["digts"]\nattentions = ["mah"]\nx = 1\n[grid]\n"y.z" = 1\n')
    assert len(said.split("\n")) == 4
