"""Tables as CSV."""

from __future__ import annotations

import csv
import io

from damcha_core.experiments.export.table import Table


def csv_text(table: Table) -> str:
    """A table as CSV: its keys, then its values.

    Args:
        table: any.

    Returns:
        Lines that end in a line break alone. Text is quoted, numbers are not and have all their
        digits, and an empty place is a value that is not there, so that reading gives back what
        was stored.
    """
    stream = io.StringIO(newline="")
    writer = csv.writer(stream, quoting=csv.QUOTE_NONNUMERIC, lineterminator="\n")
    writer.writerow([column.key for column in table.columns])
    for row in table.rows:
        writer.writerow(["" if entry.value is None else entry.value for entry in row])
    return stream.getvalue()
