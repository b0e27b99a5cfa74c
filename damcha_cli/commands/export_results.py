"""`damcha export-results`: what studies came to, as tables and figures."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from damcha_cli.errors import reported

if TYPE_CHECKING:
    from damcha_core.experiments.results.study_report import StudyReport


@reported
def export_results(
    folders: Annotated[
        list[Path], typer.Argument(metavar="DIR...", help="Study folders, as suite run left them.")
    ],
    out: Annotated[
        Path | None,
        typer.Option(help="Folder for the files; without it, Markdown is printed on stdout."),
    ] = None,
    formats: Annotated[
        str | None,
        typer.Option(
            "--format", metavar="LIST", help="Some of markdown,csv,json,latex,figures; default all."
        ),
    ] = None,
    no_times: Annotated[
        bool, typer.Option("--no-times", help="Leave out everything that depends on wall time.")
    ] = False,
    baseline: Annotated[
        str, typer.Option(help="The attention that the others are tested against.")
    ] = "mha",
    metric: Annotated[
        str, typer.Option(help="main: the main metric of each task alone; all: all of them.")
    ] = "all",
) -> None:
    """Export scores, paired tests and figures of finished and unfinished studies."""
    from damcha_cli.output import notice, plain_lines, say
    from damcha_core.errors import UsageError
    from damcha_core.experiments.export.files import FORMATS, export_files, write_files
    from damcha_core.experiments.export.markdown import markdown
    from damcha_core.experiments.results.reading import read_study
    from damcha_core.experiments.results.study_report import study_report

    wanted = chosen_formats(formats, FORMATS, to_files=out is not None)
    if metric not in ("all", "main"):
        raise UsageError(f"--metric {metric}: all or main")
    require_attention(baseline)
    if out is not None and out.exists() and not out.is_dir():
        raise UsageError(f"--out {out}: this is a file, not a folder")
    studies = [read_study(folder) for folder in folders]
    reports: dict[str, StudyReport] = {}
    for study in studies:
        report = study_report(
            study, baseline=baseline, main_only=metric == "main", with_times=not no_times
        )
        reports[free_name(study.name, reports)] = report
    if out is None:
        plain_lines()
        for name, report in reports.items():
            say(markdown(report, title=name if len(reports) > 1 else "Results"))
        return
    for name, report in reports.items():
        place = out / name if len(reports) > 1 else out
        notice(f"writing {place} ...")
        for path in write_files(place, export_files(report, wanted)):
            say(str(path))


def chosen_formats(text: str | None, known: tuple[str, ...], *, to_files: bool) -> tuple[str, ...]:
    """The formats of --format.

    Raises:
        UsageError: one is not known, or needs --out.
    """
    from damcha_core.catalog.names import unknown_name
    from damcha_core.errors import UsageError

    if text is None:
        return known if to_files else ("markdown",)
    wanted = tuple(dict.fromkeys(word.strip() for word in text.split(",") if word.strip()))
    for word in wanted:
        if word not in known:
            raise UsageError(unknown_name("format", word, known))
    if not wanted:
        raise UsageError(f"--format names no format: some of {', '.join(known)}")
    if not to_files and wanted != ("markdown",):
        raise UsageError("--format: say with --out DIR where the files go")
    return wanted


def require_attention(name: str) -> None:
    """Refuse a baseline that no run can have.

    Raises:
        UsageError: there is no such attention; the message names some.
    """
    from damcha_core.catalog.names import unknown_name
    from damcha_core.catalog.run_attentions import attention_names
    from damcha_core.errors import UsageError

    if name not in attention_names():
        raise UsageError(unknown_name("attention", name, attention_names()))


def free_name(name: str, taken: dict[str, StudyReport]) -> str:
    """A name for a study, with a number where another one has it."""
    number, free = 1, name
    while free in taken:
        number += 1
        free = f"{name}-{number}"
    return free
