"""What an export writes, and that nothing in it depends on what it should not."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import typer
from made_studies import MadeStudy, adaptivity_record, write_json
from PIL import Image
from typer.testing import CliRunner

import damcha_core
from damcha_cli.commands.export_results import export_results
from damcha_core.experiments.export.figures import figures
from damcha_core.experiments.export.files import FORMATS, export_files, write_files
from damcha_core.experiments.results.reading import read_study
from damcha_core.experiments.results.study_report import study_report

app = typer.Typer()
app.command()(export_results)


def run(*arguments: object):
    """The command in this process."""
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def made_study(folder: Path, *, seconds: float = 12.5) -> MadeStudy:
    """A small study with something of everything."""
    made = MadeStudy(folder, tasks=("digits-cls",), attentions=("mha", "damcha"), seconds=seconds)
    made.finish("digits-cls-mha-s0", "digits-cls", "mha")
    place = made.finish("digits-cls-damcha-s0", "digits-cls", "damcha", skill=0.9)
    write_json(place / "adaptivity.json", adaptivity_record())
    return made


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> MadeStudy:
    return made_study(tmp_path_factory.mktemp("studies") / "study")


def content(folder: Path, formats, *, with_times: bool) -> dict[str, bytes]:
    report = study_report(read_study(folder), n_resamples=50, with_times=with_times)
    return export_files(report, formats)


def test_without_times_studies_that_differ_in_time_and_place_are_byte_equal(made, tmp_path) -> None:
    other = made_study(tmp_path / "elsewhere" / "another name", seconds=99.25).folder
    first = content(made.folder, FORMATS, with_times=False)
    second = content(other, FORMATS, with_times=False)
    assert first.keys() == second.keys()
    assert [name for name in first if first[name] != second[name]] == []
    for text in (first["results.md"], first["results.json"], first["runs.csv"]):
        assert str(made.folder).encode() not in text
    texts = set(FORMATS) - {"figures"}
    assert content(made.folder, texts, with_times=True) != content(other, texts, with_times=True)


def test_figures_are_written_and_not_blank(made) -> None:
    report = study_report(read_study(made.folder), n_resamples=50)
    drawn = figures(report)
    stems = {
        *("curves-digits-cls", "score-and-cost", "scores"),
        *("metrics-norms-digits-cls-damcha-s0", "metrics-maps-digits-cls-damcha-s0"),
    }
    assert drawn.keys() == {f"{stem}.{ending}" for stem in stems for ending in ("png", "pdf")}
    for name, data in drawn.items():
        if name.endswith(".pdf"):
            assert data.startswith(b"%PDF")
            continue
        pixels = np.asarray(Image.open(io.BytesIO(data)).convert("RGB"))
        colours = np.unique(pixels.reshape(-1, 3), axis=0)
        assert len(colours) > 20, name
        assert (pixels != 255).any(axis=2).mean() > 0.01, name


def test_figures_need_no_display_and_choose_no_backend(made, tmp_path) -> None:
    program = (
        "import sys; from pathlib import Path\n"
        "from damcha_core.experiments.results.reading import read_study\n"
        "from damcha_core.experiments.results.study_report import study_report\n"
        "from damcha_core.experiments.export.files import export_files, write_files\n"
        "report = study_report(read_study(Path(sys.argv[1])), n_resamples=50)\n"
        "write_files(Path(sys.argv[2]), export_files(report, ('figures',)))\n"
        "assert 'matplotlib.pyplot' not in sys.modules\n"
        "assert 'tkinter' not in sys.modules\n"
    )
    variables = {name: value for name, value in os.environ.items() if name != "DISPLAY"}
    root = str(Path(damcha_core.__file__).parents[1])
    done = subprocess.run(
        [sys.executable, "-c", program, str(made.folder), str(tmp_path)],
        env={**variables, "MPLBACKEND": "TkAgg", "PYTHONPATH": root},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "figures" / "scores.png").stat().st_size > 5000


def test_names_in_figures_are_no_formulas(made, tmp_path) -> None:
    record = MadeStudy(tmp_path / "s", attentions=("mha",))
    place = record.finish("digits-cls-mha-s0", "digits-cls", "mha")
    write_json(place / "adaptivity.json", adaptivity_record())
    from damcha_core.experiments.export.drawing import drawing, written
    from damcha_core.experiments.export.heat_maps import norm_figure

    with drawing():
        figure = norm_figure("$\\frac{ 100 % _x^ 中", adaptivity_record())
        assert figure is not None
        assert written(figure)["png"]


def test_a_damaged_adaptivity_record_draws_nothing(made) -> None:
    from damcha_core.experiments.export.heat_maps import map_figure, norm_figure

    for record in ({}, {"layers": []}, {"layers": [{"heads": 3}]}, {"layers": "x"}):
        assert norm_figure("run", record) is None
        assert map_figure("run", record) is None
    ragged = adaptivity_record()
    ragged["layers"][0]["heads"].pop()
    assert norm_figure("run", ragged) is None


def test_files_appear_whole(tmp_path) -> None:
    paths = write_files(tmp_path / "a" / "b", {"x.csv": b"1", "figures/y.png": b"2"})
    assert [path.read_bytes() for path in paths] == [b"1", b"2"]
    assert {path.name for path in (tmp_path / "a" / "b").rglob("*")} == {
        "x.csv",
        "figures",
        "y.png",
    }


def test_the_command_prints_markdown(made) -> None:
    done = run(made.folder)
    assert done.exit_code == 0, done.output
    assert done.stdout.startswith("# Results\n")
    assert "| damcha" in done.stdout


def test_the_command_writes_what_it_says(made, tmp_path) -> None:
    out = tmp_path / "out"
    done = run(made.folder, "--out", out, "--format", "csv,json,latex,markdown", "--metric", "main")
    assert done.exit_code == 0, done.output
    listed = sorted(done.stdout.split("\n")[:-1])
    assert listed == sorted(str(path) for path in out.iterdir())
    names = {path.name for path in out.iterdir()}
    assert {"results.md", "results.json", "results.tex", "results-standalone.tex"} <= names
    assert {"scores.csv", "comparisons.csv", "runs.csv", "curves.csv", "adaptivity.csv"} <= names


def test_several_studies_are_kept_apart(made, tmp_path) -> None:
    done = run(made.folder, made.folder)
    assert done.stdout.count("\n# ") + done.stdout.startswith("# ") == 2
    done = run(made.folder, made.folder, "--out", tmp_path / "o", "--format", "json")
    assert done.exit_code == 0
    assert {path.name for path in (tmp_path / "o").iterdir()} == {"study", "study-2"}


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("--format", "csv"), 2, "--out DIR"),
        (("--format", "xml", "--out", "o"), 2, "csv"),
        (("--format", ",", "--out", "o"), 2, "no format"),
        (("--metric", "some"), 2, "all or main"),
        (("--baseline", "mah"), 2, "mha"),
    ],
)
def test_mistakes_are_refused_in_a_line(made, arguments, code, message) -> None:
    done = run(made.folder, *arguments)
    assert done.exit_code == code
    assert message in done.stderr
    assert not done.stdout


def test_a_folder_that_is_no_study_and_an_out_that_is_a_file(made, tmp_path) -> None:
    done = run(tmp_path)
    assert done.exit_code == 4
    assert "not a study folder" in done.stderr
    (tmp_path / "file").touch()
    done = run(made.folder, "--out", tmp_path / "file")
    assert done.exit_code == 2
