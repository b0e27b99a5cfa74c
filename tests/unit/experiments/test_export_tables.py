"""The tables of an export: what is marked, what is said in words, and the formats of text."""

from __future__ import annotations

import csv
import io
import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_studies import MadeStudy, adaptivity_record, write_json

from damcha_core.experiments.export import latex, markdown
from damcha_core.experiments.export.adaptivity_tables import run_numbers
from damcha_core.experiments.export.csv_table import csv_text
from damcha_core.experiments.export.data_tables import data_tables
from damcha_core.experiments.export.json_table import json_text
from damcha_core.experiments.export.score_tables import score_table
from damcha_core.experiments.export.sections import grid_notes, reader_tables
from damcha_core.experiments.export.table import (
    Column,
    Entry,
    Table,
    count,
    decimals_for,
    fixed,
    mark_best,
    words,
)
from damcha_core.experiments.results.reading import read_study
from damcha_core.experiments.results.study_report import StudyReport, study_report

ODD_NAMES = (
    r"50 % & more_or #less {a} ~b ^c \d $e",
    "a|b*c_d_ `e` [f](g) <h>",
    "quotes \" and ' and , commas",
    "line\nbreak\r\nand\ttab",
    "Ä é ß ñ 中文 ± →",
    "--flag ?` !` ''",
)


def report_of(made: MadeStudy, **options) -> StudyReport:
    """A study read back, few resamples."""
    return study_report(read_study(made.folder), n_resamples=100, **options)


@pytest.fixture(scope="module")
def mixed(tmp_path_factory) -> MadeStudy:
    """A study with a run in most states, two seeds; only to be read."""
    attentions = ("mha", "damcha", "dcmha", "elliptical", "gated")
    folder = tmp_path_factory.mktemp("studies") / "mixed"
    made = MadeStudy(folder, tasks=("digits-cls", "digits"), attentions=attentions, seeds=2)
    for task in made.tasks:
        for seed in range(2):
            made.finish(f"{task}-mha-s{seed}", task, "mha", seed=seed)
            run = made.finish(f"{task}-damcha-s{seed}", task, "damcha", seed=seed, skill=0.9)
            write_json(run / "adaptivity.json", adaptivity_record())
        made.finish(f"{task}-dcmha-s0", task, "dcmha", skill=0.7)
        made.end(f"{task}-dcmha-s1", task, "dcmha", "diverged", "loss is nan at step 3", 1)
        for seed in range(2):
            made.end(f"{task}-elliptical-s{seed}", task, "elliptical", "failed", "no", seed)
    tried = {"scores": {"0.001": 0.4, "0.003": 0.5}, "chosen": 0.003}
    write_json(
        folder / "tuning.json",
        {
            "grid": [0.001, 0.003],
            "budget": {"name": "small", "settings": {"digits": {"train.epochs": 2}}, "set": {}},
            "cells": {
                "digits/mha": tried,
                "digits/dcmha": {**tried, "scores": {"0.001": None, "0.003": None}, "chosen": None},
            },
        },
    )
    return made


def column(table: Table, key: str) -> list[Entry]:
    place = [column.key for column in table.columns].index(key)
    return [row[place] for row in table.rows]


@pytest.mark.parametrize(
    ("better", "best"),
    [("higher", [False, True, False, True]), ("lower", [True, False, False, False])],
)
def test_the_best_is_marked_in_its_direction_and_ties_alike(better, best) -> None:
    shown = ["1.0", "3.0", None, "3.0"]
    entries = [words(str(text)) for text in shown]
    assert [entry.best for entry in mark_best(entries, shown, better)] == best


def test_nothing_is_the_best_of_one_or_without_a_direction() -> None:
    entries = [words("1"), words("failed")]
    assert not any(entry.best for entry in mark_best(entries, ["1", None], "higher"))
    assert not any(entry.best for entry in mark_best(entries, ["1", "2"], ""))


def test_values_that_are_shown_alike_are_marked_alike(tmp_path) -> None:
    made = MadeStudy(tmp_path / "s", attentions=("mha", "damcha"))
    for attention, value in (("mha", 0.5000001), ("damcha", 0.5)):
        run = made.finish(f"digits-cls-{attention}-s0", "digits-cls", attention)
        record = json.loads((run / "test.json").read_text())
        record["metrics"]["top1"]["value"] = value
        write_json(run / "test.json", record)
    found = column(score_table(report_of(made), "digits-cls"), "top1")[:2]
    assert [(entry.text, entry.best) for entry in found] == [("0.5000", True)] * 2


def test_states_are_told_apart_in_words(mixed) -> None:
    table = score_table(report_of(mixed), "digits-cls")
    runs = [entry.text for entry in column(table, "runs")][:5]
    assert runs == ["2", "2", "1 of 2 (1 done, 1 diverged)", "0 of 2 (failed)", "0 of 2 (missing)"]
    top1 = column(table, "top1")
    assert [entry.text for entry in top1[3:5]] == ["failed", "missing"]
    assert [entry.best for entry in top1] == [False, True, False, False, False, False]
    assert re.fullmatch(r"0\.\d{4} ± 0\.\d{4}", top1[0].text)
    assert re.fullmatch(r"0\.\d{4}", top1[2].text)
    losses = column(table, "loss")
    assert [entry.best for entry in losses] == [False, True, False, False, False, False]


def test_costs_stand_beside_the_scores_unless_times_are_unwanted(mixed) -> None:
    keys = [column.key for column in score_table(report_of(mixed), "digits").columns]
    assert keys[-3:] == ["parameters", "multiply_adds", "seconds"]
    without = report_of(mixed, with_times=False)
    for table in (*reader_tables(without), *data_tables(without)):
        assert "seconds" not in [column.key for column in table.columns]


def test_the_main_metric_alone(mixed) -> None:
    report = report_of(mixed, main_only=True)
    keys = [column.key for column in score_table(report, "digits").columns]
    assert [key for key in keys if key in ("masked_mse", "psnr", "ssim")] == ["masked_mse"]
    assert {one.metric for one in report.comparisons} == {"masked_mse", "top1"}
    for table in data_tables(report):
        if table.name in ("scores", "run-scores", "floors"):
            assert {e.value for e in column(table, "metric")} == {"masked_mse", "top1"}


def test_every_number_can_be_traced(mixed) -> None:
    tables = {table.name: table for table in data_tables(report_of(mixed))}
    runs = tables["runs"]
    keys = [column.key for column in runs.columns]
    for row in runs.rows:
        entry = dict(zip(keys, (e.value for e in row), strict=True))
        if entry["state"] == "done":
            stored = json.loads((mixed.folder / entry["run_folder"] / "test.json").read_text())
            assert entry["value"] == stored["metrics"][entry["metric"]]["value"]
            assert entry["config_hash"] == stored["config_hash"]
            assert entry["seed"] == stored["seed"]
            assert f"--out {entry['run_folder']}" in entry["command"]
    assert len(runs.rows) == 20
    assert "loss is nan at step 3" in [e.value for e in column(runs, "reason")]


def test_where_the_rates_of_a_study_are_from_is_told(tmp_path):
    made = MadeStudy(tmp_path / "made", tasks=("digits",), attentions=("mha", "damcha"))
    assert "learning_rates" not in json.loads(json_text(report_of(made)))
    file = made.folder / "suite.toml"
    text = file.read_text(encoding="utf-8")
    file.write_text(text.replace("[study]\n", '[study]\nrates = "shipped"\n'), encoding="utf-8")
    write_json(made.folder / "tuning.json", {"grids": {"digits": [0.1], "cldr": [0.1, 0.2]}})
    report = report_of(made)
    assert json.loads(json_text(report))["learning_rates"] == "shipped"
    runs = reader_tables(report)[-1]
    assert "Learning rates: shipped." in runs.notes
    assert grid_notes(report.study.tuning) == [
        "The same grid for every attention of a task: digits 0.1; cldr 0.1, 0.2."
    ]


def test_tuning_and_adaptivity_have_tables_of_their_own(mixed) -> None:
    tables = {table.name: table for table in reader_tables(report_of(mixed))}
    assert [e.text for e in column(tables["tuning"], "chosen")] == ["no", "yes"]
    assert any("0.001, 0.003" in note for note in tables["tuning"].notes)
    assert any("small: digits train.epochs 2." in note for note in tables["tuning"].notes)
    assert len(tables["adaptivity"].rows) == 4
    for quantity, expected in (
        ("explained_share_mean", 0.25),
        ("explained_share_largest", 0.4),
        ("symmetric_share_mean", 0.8),
        ("largest_singular_value", 5.0),
        ("largest_score", 3.5),
        ("swap_loss_difference", 0.2),
    ):
        values = [e.value for e in column(tables["adaptivity"], quantity)]
        assert values == pytest.approx([expected] * 4), quantity
    record = json.loads(json_text(report_of(mixed)))
    assert record["tuning_record"]["grid"] == [0.001, 0.003]
    assert record["tables"]["adaptivity"]
    by_head = {table.name: table for table in data_tables(report_of(mixed))}["adaptivity-heads"]
    assert len(by_head.rows) == 4 * 2 * 3
    assert [e.value for e in column(by_head, "head")][:4] == [0, 1, 2, 0]


def test_a_damaged_adaptivity_record_has_no_rows() -> None:
    for record in ({}, {"layers": "x", "summary": 3}, {"layers": [{"layer": 0, "heads": 3}, 5]}):
        assert not list(run_numbers(record))


def test_digits_and_dashes() -> None:
    assert decimals_for([0.0123, None, 0.0001]) == 5
    assert decimals_for([34.5]) == 2
    assert decimals_for([12345.0]) == 0
    assert decimals_for([]) == 3
    assert fixed(-0.00001, 2) == "0.00"
    assert fixed(None, 2) == "-"
    assert count(1234567).text == "1,234,567"


def odd_table() -> Table:
    columns = tuple(Column(f"c{i}", name, "higher", is_text=True) for i, name in enumerate("ab"))
    rows = tuple((Entry(name, name, best=True), words(name)) for name in ODD_NAMES)
    return Table("odd_%name", ODD_NAMES[0], columns, rows, ODD_NAMES)


@pytest.mark.parametrize(
    ("text", "escaped"),
    [
        ("50 % & a_b #1 {x}", r"50 \% \& a\_b \#1 \{x\}"),
        ("~^", r"\textasciitilde{}\textasciicircum{}"),
        ("\\", r"\textbackslash{}"),
        (r"\%", r"\textbackslash{}\%"),
        ("$x$", r"\$x\$"),
        ("--set <a|b>", r"-{}-set \textless{}a\textbar{}b\textgreater{}"),
        ("[1]", "{[}1{]}"),
        ("a\nb\r\nc", "a b c"),
        ("1 ± 2", r"1 $\pm$ 2"),
        ("é ð 中", "é {[}U+00F0{]} {[}U+4E2D{]}"),
        ("\x00", "{[}U+0000{]}"),
        ("plain-name 0.5", "plain-name 0.5"),
    ],
)
def test_latex_escapes_once(text, escaped) -> None:
    assert latex.escape(text) == escaped


SHOWN = re.compile(
    "|".join(map(re.escape, sorted({*latex.ESCAPES.values(), "-{}", "{[}", "{]}"}, key=len)[::-1]))
)


@given(st.text())
def test_escaped_latex_has_nothing_that_latex_would_read(text) -> None:
    left = SHOWN.sub("", latex.escape(text))
    assert not set(left) & set("\\{}$&#%_~^<>|\n\r\t")
    assert "--" not in latex.escape(text)


def test_latex_marks_the_best_and_closes_what_it_opens() -> None:
    text = latex.table_text(odd_table())
    assert text.count(r"\textbf{") == len(ODD_NAMES)
    opened, closed = (re.findall(rf"\\{word}{{(\w+)}}", text) for word in ("begin", "end"))
    assert sorted(opened) == sorted(closed)
    plain = re.sub(r"\\[{}]", "", text)
    assert plain.count("{") == plain.count("}")
    assert r"\label{tab:odd--name}" in text
    body = text.partition(r"\begin{tabular}")[2].partition(r"\end{tabular}")[0]
    for line in body.split("\n")[2:-2]:
        assert len(re.findall(r"(?<!\\)&", line)) == 1


def test_a_long_latex_table_is_cut_into_parts() -> None:
    rows = tuple((words(f"run {place}"),) for place in range(95))
    text = latex.table_text(Table("long", "Long", (Column("a", "a"),), rows))
    assert text.count(r"\begin{tabular}") == 3
    assert "(3 of 3)" in text
    assert all(f"run {place} " in text for place in range(95))


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="no pdflatex on this machine")
def test_latex_compiles(mixed, tmp_path) -> None:
    body = latex.table_text(odd_table())
    for name, text in (
        ("odd", latex.STANDALONE % body),
        ("all", latex.latex(report_of(mixed), standalone=True)),
    ):
        (tmp_path / f"{name}.tex").write_text(text, encoding="utf-8")
        command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", f"{name}.tex"]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, check=False, timeout=60)
        assert done.returncode == 0, done.stdout[-2000:]
        assert (tmp_path / f"{name}.pdf").exists()


def test_a_standalone_document_needs_no_package(mixed) -> None:
    text = latex.latex(report_of(mixed), standalone=True)
    assert text.startswith("\\documentclass{article}\n\\begin{document}\n")
    assert text.endswith("\\end{document}\n")
    assert "usepackage" not in text
    assert latex.latex(report_of(mixed)) in text


def read_csv(text: str) -> list[list[str | float]]:
    return list(csv.reader(io.StringIO(text, newline="")))


TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"))


@given(st.lists(st.tuples(TEXTS, st.floats(allow_nan=False) | st.integers()), min_size=1))
def test_csv_gives_back_what_was_stored(rows) -> None:
    table = Table(
        "t",
        "t",
        (Column("name", "n"), Column("number", "n")),
        tuple((words(name), Entry("", number)) for name, number in rows),
    )
    head, *body = read_csv(csv_text(table))
    assert head == ["name", "number"]
    assert [name for name, _ in body] == [name for name, _ in rows]
    assert [type(stored)(text) for (_, text), (_, stored) in zip(body, rows, strict=True)] == [
        number for _, number in rows
    ]


def test_csv_of_odd_names_and_of_nothing() -> None:
    assert [row[0] for row in read_csv(csv_text(odd_table()))[1:]] == list(ODD_NAMES)
    empty = Table("t", "t", (Column("a", "a"),), ((Entry("-", None),),))
    assert csv_text(empty) == '"a"\n""\n'


def test_markdown_shows_odd_names_as_they_are() -> None:
    from markdown_it import MarkdownIt

    html = MarkdownIt("commonmark").enable("table").render(markdown.table_text(odd_table()))
    cells = re.findall(r"<td[^>]*>(?:<strong>)?(.*?)(?:</strong>)?</td>", html, flags=re.DOTALL)
    shown = [
        c.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", '"').replace("&amp;", "&")
        for c in cells[::2]
    ]
    assert shown == [" ".join(name.split()) for name in ODD_NAMES]
    assert html.count("<strong>") == len(ODD_NAMES)


def test_markdown_rows_line_up(mixed) -> None:
    text = markdown.markdown(report_of(mixed))
    for block in re.findall(r"(?:^\|.*\n)+", text, flags=re.MULTILINE):
        assert len({len(line) for line in block.splitlines()}) == 1
    assert "masked_mse ↓" in text
    assert "`damcha train --task digits --attention mha" in text


@pytest.mark.parametrize("text", ["a `b` c", "``", "`", "x"])
def test_code_holds_its_text(text) -> None:
    from markdown_it import MarkdownIt

    assert MarkdownIt().renderInline(markdown.code(text)) == f"<code>{text}</code>"


def test_json_holds_what_the_tables_hold(mixed) -> None:
    report = report_of(mixed)
    tables = json.loads(json_text(report))["tables"]
    for table in data_tables(report):
        assert len(tables[table.name]) == len(table.rows)
    top1 = [row for row in tables["scores"] if row["metric"] == "top1"]
    assert top1[3]["mean"] is None
    assert top1[3]["states"] == "failed"


def test_nothing_finished_is_still_a_report(tmp_path) -> None:
    report = report_of(MadeStudy(Path(tmp_path) / "s", attentions=("mha", "damcha")))
    assert "missing" in markdown.markdown(report)
    assert latex.latex(report)
    assert json.loads(json_text(report))["tables"]["runs"][0]["state"] == "missing"


def test_a_varied_setting_is_shown_against_the_main_metric(tmp_path) -> None:
    """Trivial answers that depend on the setting stand under their own value of it."""
    grid = {"data.n_pairs": [4, 8]}
    made = MadeStudy(tmp_path / "study", tasks=("recall",), grid=grid)
    for n in (4, 8):
        for name, skill in (("mha", 0.9), ("damcha", 0.2)):
            cell = f"recall-{name}-n_pairs{n}-s0"
            run = made.finish(cell, "recall", name, skill=skill, data__n_pairs=n)
            test = json.loads((run / "test.json").read_text())
            test["floors"] = {"random_shown_value": {"accuracy": floor_of(test, 1 / n)}}
            write_json(run / "test.json", test)
    report = report_of(made)
    tables = {table.name: table for table in reader_tables(report)}
    shown = tables["grid-recall"]
    assert [c.title for c in shown.columns] == ["attention", "n_pairs 4", "n_pairs 8"]
    assert [row[0].text for row in shown.rows] == ["mha", "damcha", "floor: random shown value"]
    for place, n in ((1, 4), (2, 8)):
        for row in shown.rows[:2]:
            file = made.folder / f"recall-{row[0].text}-n_pairs{n}-s0" / "test.json"
            assert row[place].value == json.loads(file.read_text())["metrics"]["accuracy"]["value"]
        assert shown.rows[2][place].value == 1 / n
        assert [row[place].best for row in shown.rows] == [True, False, False]
    floors = [row for row in tables["scores-recall"].rows if row[0].text.startswith("floor")]
    assert [(row[1].text, row[3].value) for row in floors] == [("4", 1 / 4), ("8", 1 / 8)]
    (stored,) = (table for table in data_tables(report) if table.name == "floors")
    assert [[e.value for e in row][1:5] for row in stored.rows] == [
        [4, "random_shown_value", "accuracy", 1 / 4],
        [8, "random_shown_value", "accuracy", 1 / 8],
    ]


def floor_of(test, value):
    """A trivial answer's record, with the unit of the metric."""
    return {**test["metrics"]["accuracy"], "value": value}


def test_a_trivial_answer_that_no_setting_moves_has_one_row(tmp_path) -> None:
    made = MadeStudy(
        tmp_path / "study", tasks=("digits",), attentions=("mha",), grid={"model.n_layers": [1, 2]}
    )
    for n in (1, 2):
        made.finish(f"digits-mha-n_layers{n}-s0", "digits", "mha", model__n_layers=n)
    tables = {table.name: table for table in reader_tables(report_of(made))}
    floors = [row for row in tables["scores-digits"].rows if row[0].text.startswith("floor")]
    assert [row[1].text for row in floors] == [""]
    assert [row[0].text for row in tables["grid-digits"].rows] == ["mha", "floor: guess"]
    assert tables["grid-digits"].rows[1][1].value == tables["grid-digits"].rows[1][2].value == 0.1


def test_a_study_that_varies_nothing_has_no_such_table(mixed) -> None:
    assert not [t for t in reader_tables(report_of(mixed)) if t.name.startswith("grid-")]
