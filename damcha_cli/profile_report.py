"""What `damcha profile` prints."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from damcha_cli.output import print_pairs, print_table, say
from damcha_cli.report import mebibytes

if TYPE_CHECKING:
    from damcha_core.profiling.against import Comparison
    from damcha_core.profiling.profile_record import (
        Exponent,
        Length,
        ProfileRecord,
        Range,
        Row,
    )

NOT_THERE = "-"
OUT_OF_MEMORY = "out of memory"


def print_profile(record: ProfileRecord) -> None:
    """A whole profile: the machine, sizes, a step at the main length, growth, where time goes."""
    print_header(record)
    print_parity(record)
    rows = [row for row in record.rows if row.parity.passed]
    if not rows:
        return
    print_sizes(record, rows)
    if record.main_length is not None:
        print_step(record, rows, record.main_length)
        print_cost(rows, record.main_length)
    print_growth(record, rows)
    print_hot_spots(record, rows)
    print_decoding(record, rows)
    print_notes(record)


def print_header(record: ProfileRecord) -> None:
    """Where it was measured, and what."""
    machine, size, seen = record.machine, record.size, record.environment
    git = seen.get("git")
    load = "not known" if machine.load is None else f"{machine.load:.2f}"
    packages = seen.get("packages") or {}
    print_pairs(
        {
            "device": f"{machine.device} ({machine.processor}), {machine.precision}",
            "threads": f"{machine.threads} of {machine.cores} cores, load average {load}",
            "software": f"damcha {seen.get('damcha')}, torch {packages.get('torch')}, "
            f"Python {seen.get('python')}",
            **({"source": git_state(git)} if isinstance(git, dict) else {}),
            "measured peak": f"{machine.matmul_flops / 1e9:,.1f} GFLOP/s in products of matrices, "
            f"{machine.copy_bytes / 1e9:,.1f} GB/s in copies",
            "model": f"{size.n_layers} layers of d_model {size.d_model}, n_heads {size.n_heads}, "
            f"d_ff {size.d_ff}; batch {size.batch_size}",
        }
    )


def git_state(git: dict[str, object]) -> str:
    """The commit of a checkout in words."""
    return f"commit {str(git.get('commit'))[:12]}{', changed' if git.get('changed') else ''}"


def print_parity(record: ProfileRecord) -> None:
    """Whether the layers compute what their references do."""
    passed = [row.parity for row in record.rows if row.parity.passed]
    say()
    if passed:
        worst = max(
            max(found.largest_output_error or 0.0, found.largest_gradient_error or 0.0)
            for found in passed
        )
        say(
            f"parity: outputs and gradients of {len(passed)} of {len(record.rows)} layers are "
            f"those of their slow references (largest error {worst:.1e})"
        )
    for row in record.rows:
        if not row.parity.passed:
            found = row.parity
            say(
                f"PARITY FAILED: {row.label} differs from its reference (output "
                f"{error(found.largest_output_error)}, gradient of {found.worst_gradient} "
                f"{error(found.largest_gradient_error)}, tolerance {found.tolerance:.0e}); its "
                "cost is not shown"
            )


def error(value: float | None) -> str:
    """An error of parity."""
    return "not finite" if value is None else f"{value:.1e}"


def print_sizes(record: ProfileRecord, rows: Sequence[Row]) -> None:
    """Parameters, once for each attention."""
    shown = []
    for row in {row.attention: row for row in rows}.values():
        assert row.parameters is not None, "a layer that passed was counted"
        extra = row.parameters.extra
        shown.append(
            [
                row.attention,
                f"{row.parameters.total:,}",
                f"{row.parameters.attention:,}",
                NOT_THERE if extra is None else f"{extra:+,}",
            ]
        )
    say()
    columns = ["", "total", "attention", f"over {record.baseline}"]
    print_table("parameters", columns, shown)


def print_step(record: ProfileRecord, rows: Sequence[Row], length: int) -> None:
    """Times of a training step."""
    shown = []
    for row in rows:
        found = row.at(length)
        if found is None or found.step is None:
            shown.append([row.label, OUT_OF_MEMORY, "", "", "", ""])
            continue
        step = found.step
        ratio = NOT_THERE if step.ratio is None else times(step.ratio)
        shown.append(
            [
                row.label,
                milliseconds(step.forward.wall),
                milliseconds(step.backward.wall),
                milliseconds(step.optimizer.wall),
                f"{step.tokens_per_second:,.0f}",
                ratio,
            ]
        )
    say()
    columns = ["", "forward ms", "backward ms", "optimizer ms", "tokens/s", f"x {record.baseline}"]
    print_table(f"a training step on {length:,} tokens: median [p20-p80]", columns, shown)


def print_cost(rows: Sequence[Row], length: int) -> None:
    """Memory, operations and what they come to."""
    shown = []
    for row in rows:
        found = row.at(length)
        if found is None or found.step is None:
            shown.append([row.label, OUT_OF_MEMORY, *[""] * 7])
            continue
        shown.append(
            [
                row.label,
                mebibytes(found.peak_bytes or 0),
                f"{(found.model_flops + found.model_backward_flops) / 1e9:,.3f}",
                f"{(found.counted_flops or 0) / 1e9:,.3f}",
                f"{found.step.flops_per_second / 1e9:,.1f}",
                f"{100 * found.step.share_of_peak:.1f} %",
                f"{found.intensity or 0:.1f}",
                str(found.bound),
            ]
        )
    say()
    columns = [
        "",
        "peak\nmemory",
        "model\nGFLOP",
        "counted\nGFLOP",
        "GFLOP/s",
        "of the\npeak",
        "FLOP\na byte",
        "bound\nby",
    ]
    print_table(f"what a training step on {length:,} tokens takes", columns, shown)


def print_growth(record: ProfileRecord, rows: Sequence[Row]) -> None:
    """Time, operations and memory over the lengths."""

    def step_time(found: Length) -> str:
        assert found.step is not None
        return f"{1e3 * found.step.step.by(record.clock).median:,.1f}"

    tables: list[tuple[str, str, Callable[[Length], str]]] = [
        (f"ms of a training step ({record.clock})", "time", step_time),
        ("counted GFLOP", "flops", lambda found: f"{(found.counted_flops or 0) / 1e9:,.2f}"),
        ("peak MiB", "memory", lambda found: f"{(found.peak_bytes or 0) / 2**20:,.1f}"),
    ]
    for title, name, cell in tables:
        shown = [
            [
                row.label,
                *(cell(found) if found.fits else OUT_OF_MEMORY for found in row.lengths),
                exponent(getattr(row.growth, name) if row.growth else None),
                *([exponent(row.growth.added)] if name == "memory" and row.growth else []),
            ]
            for row in rows
        ]
        say()
        columns = ["", *(f"{length:,}" for length in record.lengths), "exponent (R2)"]
        if name == "memory":
            columns.append("without weights")
        print_table(f"{title} by length", columns, shown)
    for row in rows:
        for found in row.lengths:
            if not found.fits:
                say(f"{row.label} at {found.length:,}: {why_not(found)}")


def why_not(found: Length) -> str:
    """Why a length was not measured."""
    had = "" if found.available_bytes is None else f", {gibibytes(found.available_bytes)} available"
    if found.predicted and found.needed_bytes:
        return f"not run: it would need about {gibibytes(found.needed_bytes)} more{had}"
    return f"an allocation failed{had}"


def print_hot_spots(record: ProfileRecord, rows: Sequence[Row]) -> None:
    """The parts and operators that take most of a step."""
    shown = [row for row in rows if row.hot_spots is not None]
    if not shown:
        return
    say()
    say(f"where the time of a step on {record.main_length or 0:,} tokens goes (by a profiler)")
    for row in shown:
        assert row.hot_spots is not None
        metric = row.hot_spots.metric
        say(row.label + ("" if metric is None else f": the metric alone {100 * metric:.0f} %"))
        for kind, shares in (
            ("parts", row.hot_spots.parts),
            ("operators", row.hot_spots.operators),
        ):
            names = ", ".join(f"{found.name} {100 * found.share:.0f} %" for found in shares)
            say(f"  {kind}: {names}")


def print_decoding(record: ProfileRecord, rows: Sequence[Row]) -> None:
    """Time of a token with the cache."""
    causal = [row for row in rows if row.causal]
    if not causal:
        return
    contexts = sorted({found.context for row in causal for found in row.decoding})
    shown = []
    for row in causal:
        if not row.cacheable:
            shown.append([row.label, "no cache", *[""] * (2 * len(contexts) - 1)])
            continue
        by_context = {found.context: found for found in row.decoding}
        cells = []
        for context in contexts:
            found = by_context.get(context)
            median = None if found is None else found.step.by(record.clock).median
            if found is None or median is None:
                cells += [NOT_THERE, NOT_THERE]
            else:
                metric = NOT_THERE if found.metric is None else f"{1e3 * found.metric:.2f}"
                cells += [f"{1e3 * median:.2f}", metric]
        shown.append([row.label, *cells])
    if not contexts:
        return
    say()
    columns = [""]
    for context in contexts:
        columns += [f"after\n{context:,}", "metric\nalone"]
    print_table(
        f"decoding with the cache: ms a token ({record.clock}), a batch of "
        f"{record.size.batch_size}",
        columns,
        shown,
    )


def print_notes(record: ProfileRecord) -> None:
    """How the figures are to be read."""
    say()
    say(f"ms and tokens/s are wall time; x {record.baseline}, exponents and shares of the peak are")
    say(
        "CPU time of this process, which other programs disturb less"
        if record.clock == "cpu time"
        else "wall time too"
    )
    say("x: median over rounds in which all take turns; FLOPs are products of matrices alone")


def print_comparison(comparison: Comparison) -> None:
    """What has changed since an earlier profile."""
    say()
    for line in comparison.circumstances:
        say(f"NOT THE SAME: {line}")
    shown = [
        [
            f"{change.label} at {change.length:,}",
            f"{1e3 * change.before:,.2f}",
            f"{1e3 * change.now:,.2f}",
            f"{change.ratio:.2f}",
            ("slower" if change.ratio > 1 else "faster") if change.differs else "",
            f"{change.memory_ratio:.2f}",
            f"{change.flops_ratio:.2f}",
        ]
        for change in comparison.changes
    ]
    if shown:
        columns = ["", "before ms", "now ms", "ratio", "", "memory", "FLOPs"]
        print_table(f"against the earlier profile, by {comparison.clock}", columns, shown)
        say("marked where the ranges p20-p80 do not overlap; the others may be noise")
    else:
        say("the two profiles have no figure in common")
    for line in comparison.missing:
        say(line)


def milliseconds(found: Range) -> str:
    """Median and range of seconds as milliseconds."""
    return f"{1e3 * found.median:.2f} [{1e3 * found.p20:.2f}-{1e3 * found.p80:.2f}]"


def times(found: Range) -> str:
    """Median and range of a ratio."""
    return f"{found.median:.2f} [{found.p20:.2f}-{found.p80:.2f}]"


def exponent(found: Exponent | None) -> str:
    """A fitted exponent."""
    return NOT_THERE if found is None else f"{found.exponent:.2f} ({found.r_squared:.3f})"


def gibibytes(count: int) -> str:
    """A number of bytes as a person says it."""
    return f"{count / 2**30:,.1f} GiB"
