"""`damcha generate`: a text for every line."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from damcha_cli.errors import reported
from damcha_cli.options import CheckpointOption, DeviceOption, JsonOption, RunArgument, SetOption

if TYPE_CHECKING:
    from damcha_core.evaluate.text.generation import Answer


@reported
def generate(
    run: RunArgument,
    file: Annotated[
        Path | None, typer.Argument(metavar="[FILE]", help="Text file, UTF-8; none: stdin.")
    ] = None,
    text: Annotated[
        list[str] | None, typer.Option("--text", help="A line instead of a file; repeatable.")
    ] = None,
    beam: Annotated[
        int | None, typer.Option(help="Beam width; 1: greedy. Default eval.beam.")
    ] = None,
    length_penalty: Annotated[
        float | None, typer.Option(help="Exponent of GNMT's penalty. Default eval.length_penalty.")
    ] = None,
    n_best: Annotated[int, typer.Option(help="Texts a line, best first; above 1 with --json.")] = 1,
    max_new_tokens: Annotated[
        int | None, typer.Option(help="Most tokens of a text; 0: 50 more than its line.")
    ] = None,
    min_new_tokens: Annotated[int, typer.Option(help="Fewest tokens of a text.")] = 0,
    no_repeat_ngram: Annotated[
        int, typer.Option(help="Length of token runs that may not occur twice; 0: off.")
    ] = 0,
    repetition_penalty: Annotated[
        float, typer.Option(help="Divides the odds of tokens a text has already; 1: off.")
    ] = 1.0,
    temperature: Annotated[
        float, typer.Option(help="Sample at this temperature; 0: search for the best.")
    ] = 0.0,
    top_k: Annotated[int, typer.Option(help="Sample from the k most probable; 0: all.")] = 0,
    top_p: Annotated[
        float, typer.Option(help="Sample from the fewest that have this probability.")
    ] = 1.0,
    seed: Annotated[int, typer.Option(help="Seed of the sampling.")] = 0,
    place_concepts: Annotated[
        bool, typer.Option("--place-concepts", help="Make a text hold every word of its line.")
    ] = False,
    batch_size: Annotated[int, typer.Option(min=1, help="Lines at a time; it moves no text.")] = 64,
    checkpoint: CheckpointOption = "best",
    device: DeviceOption = None,
    sets: SetOption = None,
    as_json: JsonOption = False,
) -> None:
    """Write one line of text for each line, in order, and nothing else on stdout.

    A blank line gives a blank line. With --json each line is an object with the texts, their
    scores and their lengths.
    """
    from damcha_cli.output import notice, plain_lines, print_record, say
    from damcha_cli.text_input import open_lines
    from damcha_core.decoding.search_settings import SearchSettings
    from damcha_core.errors import UsageError
    from damcha_core.evaluate.text.generation import ANY_LENGTH
    from damcha_core.train.trained_run import load_run

    if file is not None and text:
        raise UsageError("give a file or --text, not both")
    if n_best > 1 and not as_json:
        raise UsageError("--n-best above 1 gives several texts a line: add --json")
    flags = {
        "run.device": device,
        "eval.beam": beam,
        "eval.length_penalty": length_penalty,
        "eval.max_new_tokens": max_new_tokens,
    }
    trained = load_run(run, checkpoint=checkpoint, sets=sets or [], flags=flags)
    wanted = trained.config.eval
    settings = SearchSettings(
        beam=1 if temperature and beam is None else wanted.beam,
        n_best=n_best,
        length_penalty=wanted.length_penalty,
        min_new_tokens=min_new_tokens,
        max_new_tokens=wanted.max_new_tokens or ANY_LENGTH,
        no_repeat_ngram=no_repeat_ngram,
        repetition_penalty=repetition_penalty,
        temperature=temperature,
        top_k=top_k,
        top_p=top_p,
        seed=seed,
    )
    plain_lines()
    with open_lines(file, text) as lines:
        answers = trained.generate(
            lines, settings, batch_size=batch_size, place_concepts=place_concepts
        )
        for number, answer in enumerate(answers, start=1):
            for line in warnings(number, answer):
                notice(f"note: {line}")
            if as_json:
                print_record(as_record(answer))
            else:
                say(answer.best.text)


def warnings(number: int, answer: Answer) -> list[str]:
    """What the user should know of a line, none for most."""
    lines = []
    if answer.source_cut:
        lines.append(
            f"line {number} has {answer.source_tokens} tokens; only its beginning was read "
            "(data.max_tokens)"
        )
    if answer.best.cut:
        lines.append(f"line {number}: its text was cut at {answer.best.n_tokens} tokens")
    if answer.best.unplaced:
        lines.append(f"line {number}: no room for {', '.join(answer.best.unplaced)}")
    return lines


def as_record(answer: Answer) -> dict[str, Any]:
    """An answer in plain types."""
    from dataclasses import asdict

    return {
        "texts": [asdict(text) for text in answer.texts],
        "source_tokens": answer.source_tokens,
        "source_cut": answer.source_cut,
    }
