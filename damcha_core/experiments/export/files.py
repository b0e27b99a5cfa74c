"""The files of an export."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path

from damcha_core.experiments.export.csv_table import csv_text
from damcha_core.experiments.export.data_tables import data_tables
from damcha_core.experiments.export.json_table import json_text
from damcha_core.experiments.export.latex import latex
from damcha_core.experiments.export.markdown import markdown
from damcha_core.experiments.results.study_report import StudyReport
from damcha_core.files import disk_errors, replace_bytes

FORMATS = ("markdown", "csv", "json", "latex", "figures")


def export_files(report: StudyReport, formats: Collection[str]) -> dict[str, bytes]:
    """A study in some formats.

    Args:
        report: of a study.
        formats: some of FORMATS.

    Returns:
        Content by file name: results.md; scores.csv, comparisons.csv, runs.csv and the others of
        `data_tables`; results.json; results.tex for another document and results-standalone.tex;
        figures as png and pdf under figures/. Text is UTF-8.
    """
    texts: dict[str, str] = {}
    if "markdown" in formats:
        texts["results.md"] = markdown(report)
    if "csv" in formats:
        texts |= {f"{table.name}.csv": csv_text(table) for table in data_tables(report)}
    if "json" in formats:
        texts["results.json"] = json_text(report)
    if "latex" in formats:
        texts["results.tex"] = latex(report)
        texts["results-standalone.tex"] = latex(report, standalone=True)
    # What no encoding can hold (half of a character) is written as its number.
    files = {name: text.encode("utf-8", "backslashreplace") for name, text in texts.items()}
    if "figures" in formats:
        from damcha_core.experiments.export.figures import figures

        files |= {f"figures/{name}": content for name, content in figures(report).items()}
    return files


def write_files(folder: Path, files: Mapping[str, bytes]) -> list[Path]:
    """Write files, each whole or not at all.

    Args:
        folder: where; it is made if need be.
        files: content by name.

    Returns:
        What was written.

    Raises:
        DiskError: the folder cannot be made or written.
    """
    written = []
    for name, content in files.items():
        path = folder / name
        with disk_errors(path):
            path.parent.mkdir(parents=True, exist_ok=True)
        replace_bytes(path, content)
        written.append(path)
    return written
