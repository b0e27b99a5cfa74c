"""Per-sample values kept by sample id, and means that no batch size or order can change."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

Value = float | None


class Score(NamedTuple):
    """A metric over a split.

    Args:
        value: the metric, None where nothing could be averaged.
        n: how many things it averages (pictures, or hidden values for pooled errors).
    """

    value: float | None
    n: int


class SampleScores:
    """A table with one row a sample and one column a value.

    Args:
        columns: names of the values that every row has.
    """

    def __init__(self, columns: Sequence[str]) -> None:
        self._columns = tuple(columns)
        self._rows: dict[int, tuple[Value, ...]] = {}

    def __len__(self) -> int:
        return len(self._rows)

    def add(self, ids: Sequence[int], values: Mapping[str, Sequence[Value]]) -> None:
        """Add one row for each id.

        Args:
            ids: sample ids, each new to the table.
            values: for every column, one value an id; None means undefined for that sample.

        Raises:
            ValueError: an id comes twice, which would count the sample twice.
        """
        columns = [values[name] for name in self._columns]
        assert all(len(column) == len(ids) for column in columns)
        for row, sample_id in enumerate(ids):
            if sample_id in self._rows:
                raise ValueError(f"Sample {sample_id} was scored twice; each counts once.")
            self._rows[sample_id] = tuple(column[row] for column in columns)

    def ids(self) -> list[int]:
        """Ids in ascending order, the order of every column."""
        return sorted(self._rows)

    def column(self, name: str) -> list[Value]:
        """Values of one column in the order of `ids`.

        Args:
            name: one of the table's columns.

        Returns:
            One value a sample.
        """
        place = self._columns.index(name)
        return [self._rows[sample_id][place] for sample_id in self.ids()]

    def mean(self, name: str) -> Score:
        """Mean of a column over the samples that have a value there.

        Args:
            name: one of the table's columns.

        Returns:
            The mean and the number of samples in it.
        """
        present = [value for value in self.column(name) if value is not None]
        # fsum rounds once, so the sum is the same for every order of the rows.
        return Score(math.fsum(present) / len(present) if present else None, len(present))

    def pooled(self, sums: str, counts: str) -> Score:
        """Sum of one column over the sum of another: large samples weigh more.

        Args:
            sums: column of sums.
            counts: column of whole numbers, how many things each sum is made of.

        Returns:
            The quotient and the total count; None where that is 0.
        """
        count = int(math.fsum(value for value in self.column(counts) if value is not None))
        total = math.fsum(value for value in self.column(sums) if value is not None)
        return Score(total / count if count else None, count)
