"""`damcha profile`: what attentions cost where this runs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from damcha_cli.errors import reported
from damcha_cli.options import DeviceOption, JsonOption, SetOption
from damcha_core.profiling.effort import DEFAULT_ROUNDS, DEFAULT_SECONDS, Effort
from damcha_core.profiling.lengths import DEFAULT_LENGTHS, parse_lengths

if TYPE_CHECKING:
    from collections.abc import Sequence

    from damcha_core.profiling.plan import Candidate
    from damcha_core.profiling.profile_record import ProfileRecord


@reported
def profile(
    attention: Annotated[
        str | None,
        typer.Option(metavar="NAMES", help="Names with commas between; default mha,damcha."),
    ] = None,
    lengths: Annotated[
        str, typer.Option(metavar="NUMBERS", help="Tokens of a sequence, with commas between.")
    ] = ",".join(map(str, DEFAULT_LENGTHS)),
    causal: Annotated[
        bool | None,
        typer.Option("--causal/--no-causal", help="One of the two alone; default both."),
    ] = None,
    config: Annotated[
        Path | None, typer.Option(help="Run file (TOML) with sizes and options.")
    ] = None,
    sets: SetOption = None,
    device: DeviceOption = None,
    batch_size: Annotated[int | None, typer.Option(help="Sequences in a step; default 4.")] = None,
    threads: Annotated[
        int | None, typer.Option(help="CPU threads; default 1; 0: torch's own choice.")
    ] = None,
    precision: Annotated[
        str | None, typer.Option(help="float32, bfloat16, float16 or float64.")
    ] = None,
    repeats: Annotated[
        int, typer.Option(min=1, max=1000, help="Most rounds at a length.")
    ] = DEFAULT_ROUNDS,
    seconds: Annotated[
        float,
        typer.Option(min=0, max=86400, help="Time for the rounds of a length; 3 are made anyway."),
    ] = DEFAULT_SECONDS,
    out: Annotated[Path | None, typer.Option(help="Write the profile to this file.")] = None,
    against: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Compare with an earlier --out.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Measure parameters, operations, memory and time of attentions, side by side.

    Each layer is compared with its slow reference first: one that differs shows no speed, and the
    exit code is 1. All are measured in turns on a stack of the published size, or that of a run
    file; a length for which the memory does not suffice is said to be one.
    """
    from damcha_core.errors import OutOfMemoryError, UsageError
    from damcha_core.profiling.plan import parse_attentions, plan_candidates
    from damcha_core.profiling.profile_file import check_place, read_profile, write_profile

    if not seconds >= 0:
        raise UsageError(f"--seconds {seconds}: give a number of seconds")
    tokens = parse_lengths(lengths)
    names = () if attention is None else parse_attentions(attention)
    candidates = plan_candidates(
        config,
        sets or [],
        {
            "run.device": device,
            "run.threads": threads,
            "train.batch_size": batch_size,
            "train.precision": precision,
        },
        attentions=names,
        modes=(True, False) if causal is None else (causal,),
    )
    earlier = None if against is None else read_profile(against)
    if out is not None:
        check_place(out)
    record = _measured(candidates, tokens, Effort(repeats, seconds))
    try:
        if out is not None:
            write_profile(out, record)
    finally:  # what was measured is not lost with the file
        _print(record, earlier, as_json)
    if record.parity_failed:
        raise typer.Exit(1)
    if record.main_length is None:
        raise OutOfMemoryError(
            "every length is out of memory: choose shorter --lengths or a smaller --batch-size"
        )


def _measured(
    candidates: Sequence[Candidate], lengths: Sequence[int], effort: Effort
) -> ProfileRecord:
    import torch

    from damcha_cli.output import notice
    from damcha_core.profiling.profile import make_profile
    from damcha_core.train.device import choose_device, memory_errors
    from damcha_core.train.environment import describe_environment
    from damcha_core.train.precision import Precision
    from damcha_core.train.torch_settings import torch_settings

    config = candidates[0].config
    place = choose_device(config.run.device)
    number_format = Precision(config.train.precision, place)
    with torch_settings(config), memory_errors():
        return make_profile(
            candidates,
            lengths,
            number_format=number_format,
            n_threads=torch.get_num_threads(),
            environment=describe_environment(place),
            effort=effort,
            tell=notice,
        )


def _print(record: ProfileRecord, earlier: ProfileRecord | None, as_json: bool) -> None:
    from damcha_cli.output import print_json
    from damcha_cli.profile_report import print_comparison, print_profile
    from damcha_core.profiling.against import compare, plain_comparison

    comparison = None if earlier is None else compare(record, earlier)
    if as_json:
        plain = record.plain()
        if comparison is not None:
            plain["against"] = plain_comparison(comparison)
        print_json(plain)
        return
    print_profile(record)
    if comparison is not None:
        print_comparison(comparison)
