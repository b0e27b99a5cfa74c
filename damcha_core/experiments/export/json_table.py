"""Tables as JSON."""

from __future__ import annotations

import json
from typing import Any

from damcha_core.experiments.export.data_tables import data_tables
from damcha_core.experiments.export.table import Table
from damcha_core.experiments.results.study_report import StudyReport

SCHEMA = 1


def table_record(table: Table) -> list[dict[str, Any]]:
    """The rows of a table by the keys of its columns."""
    keys = [column.key for column in table.columns]
    return [dict(zip(keys, (entry.value for entry in row), strict=True)) for row in table.rows]


def json_text(report: StudyReport) -> str:
    """A study as one JSON object.

    Args:
        report: of a study.

    Returns:
        {"schema", "summary", "grid", "baseline", "tables", "learning_rates" (where tuned ones are
        from) and "tuning_record" where there is one};
        each table, by its name, is a list of its rows.
    """
    record: dict[str, Any] = {
        "schema": SCHEMA,
        "summary": report.study.summary,
        "grid": list(report.study.grid),
        "baseline": report.baseline,
        "tables": {table.name: table_record(table) for table in data_tables(report)},
    }
    if report.study.rates:
        record["learning_rates"] = report.study.rates
    if report.study.tuning:
        record["tuning_record"] = dict(report.study.tuning)
    return json.dumps(record, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
