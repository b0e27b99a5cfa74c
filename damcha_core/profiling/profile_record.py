"""A profile in plain types: what `--json` prints, `--out` writes and `--against` reads.

Times are seconds, memory is bytes, and every number is a plain one. A figure that does not exist
(a length that did not fit, a ratio to nothing) is null.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

KIND = "damcha profile"
SCHEMA = 1

ClockName = Literal["cpu time", "wall time"]
Count = Annotated[int, Field(ge=0)]
NotNegative = Annotated[float, Field(ge=0)]
Positive = Annotated[float, Field(gt=0)]


class Record(BaseModel):
    """Base of all parts: strict types, finite numbers; fields of a later version are dropped."""

    model_config = ConfigDict(strict=True, frozen=True, allow_inf_nan=False)


class Range(Record):
    """Median of repeated measurements and the range of the middle three fifths."""

    median: NotNegative
    p20: NotNegative
    p80: NotNegative

    def overlaps(self, other: Range) -> bool:
        """Whether the two ranges have a value in common."""
        return self.p20 <= other.p80 and other.p20 <= self.p80


class Times(Record):
    """Seconds of one phase by both clocks."""

    wall: Range
    cpu: Range

    def by(self, clock: ClockName) -> Range:
        """The times of one of the clocks."""
        return self.cpu if clock == "cpu time" else self.wall


class Step(Record):
    """Times of a training step, and what follows from them.

    Attributes:
        rounds: in how many rounds it was measured.
        forward: forward pass and loss.
        backward: backward pass.
        optimizer: update of the weights.
        step: the three together.
        tokens_per_second: by the wall clock.
        flops_per_second: model operations a second, by the steady clock.
        share_of_peak: of the product of matrices measured on the machine, from 0.
        ratio: how many times longer a step takes than the baseline's of the same mode in the same
            round, by the steady clock; null without a baseline.
    """

    rounds: Count
    forward: Times
    backward: Times
    optimizer: Times
    step: Times
    tokens_per_second: Positive
    flops_per_second: Positive
    share_of_peak: Positive
    ratio: Range | None


class Length(Record):
    """One attention at one length.

    Attributes:
        length: number of tokens.
        fits: False where the memory did not suffice; the figures of a run are then null.
        predicted: where it does not fit: True if that was told from shorter lengths, False if an
            allocation failed.
        needed_bytes: what it was predicted to need; null: not known.
        available_bytes: what there was, where it does not fit.
        model_flops: operations of a forward pass by the catalogue's formulas.
        model_backward_flops: the same of a backward pass.
        peak_bytes: most memory of tensors at one time in a training step.
        resident_bytes: what of it is there between two steps.
        counted_flops: operations of a training step as counted while it ran.
        moved_bytes: bytes that its operators read and wrote.
        intensity: counted operations a byte.
        bound: "compute" where the machine does fewer operations in the time in which it moves a
            byte, "memory" otherwise.
        step: times.
    """

    length: Annotated[int, Field(ge=1)]
    fits: bool
    predicted: bool | None = None
    needed_bytes: Count | None = None
    available_bytes: Count | None = None
    model_flops: Count
    model_backward_flops: Count
    peak_bytes: Count | None = None
    resident_bytes: Count | None = None
    counted_flops: Count | None = None
    moved_bytes: Count | None = None
    intensity: float | None = None
    bound: Literal["compute", "memory"] | None = None
    step: Step | None = None


class Exponent(Record):
    """Fitted power of the length, and the share of the variance that it explains."""

    exponent: float
    r_squared: float


class Growth(Record):
    """How figures grow with the length; null with fewer than two lengths that fit.

    Attributes:
        time: of a step, by the steady clock.
        flops: counted operations.
        memory: peak memory.
        added: what of the peak is not there between two steps: activations and gradients.
    """

    time: Exponent | None
    flops: Exponent | None
    memory: Exponent | None
    added: Exponent | None


class Share(Record):
    """A name and its share of the time, from 0 to 1."""

    name: str
    share: float


class HotSpots(Record):
    """Where the time of a training step goes, at the main length, as a profiler sees it.

    Attributes:
        parts: the parts of the model that take most, each without the parts inside it, with its
            backward pass.
        operators: the operators that take most, each without those that it calls.
        metric: share of pooling, generating and applying metrics, with its backward pass; null
            where the layer has none.
    """

    parts: list[Share]
    operators: list[Share]
    metric: float | None


class Decoding(Record):
    """What the next token costs after a context, with the cache.

    Attributes:
        context: tokens that the cache holds before the first token that is timed; each adds one.
        step: a token more for every sequence of the batch.
        metric: seconds of it for pooling, generating and applying metrics, by the steady clock;
            null where the layer has none.
    """

    context: Annotated[int, Field(ge=1)]
    step: Times
    metric: NotNegative | None


class Parity(Record):
    """How far the layer is from its slow reference."""

    passed: bool
    largest_output_error: float | None
    largest_gradient_error: float | None
    tolerance: float
    worst_gradient: str


class Parameters(Record):
    """Numbers in the parameters; extra is what the attention has beyond the baseline's."""

    total: Count
    attention: Count
    generator: Count
    extra: int | None


class Row(Record):
    """One attention, causal or whole.

    Attributes:
        parameters: null where the parity failed.
        lengths: empty where the parity failed.
        cacheable: whether decoding keeps a state, by the catalogue.
    """

    attention: str
    causal: bool
    options: dict[str, Any]
    parity: Parity
    parameters: Parameters | None
    lengths: list[Length]
    growth: Growth | None
    hot_spots: HotSpots | None
    cacheable: bool
    decoding: list[Decoding]

    @property
    def label(self) -> str:
        """Such as "damcha causal"."""
        return f"{self.attention} {'causal' if self.causal else 'whole'}"

    def at(self, length: int | None) -> Length | None:
        """The figures of a length, if it is there."""
        return next((found for found in self.lengths if found.length == length), None)


class Machine(Record):
    """Where it was measured."""

    device: str
    processor: str
    cores: Count
    threads: Count
    precision: str
    load: float | None
    matmul_flops: Positive
    copy_bytes: Positive


class Size(Record):
    """What was measured."""

    d_model: Count
    n_heads: Count
    d_ff: Count
    n_layers: Count
    dropout: float
    batch_size: Count


class ProfileRecord(Record):
    """A whole profile.

    Attributes:
        environment: versions, git state and command, as environment.json of a run holds them.
        clock: which clock ratios, exponents and shares are taken from.
        baseline: the attention that ratios refer to.
        main_length: the length of hot spots; null where none fits.
    """

    kind: Literal["damcha profile"] = "damcha profile"
    schema_: Annotated[int, Field(alias="schema", ge=1)] = SCHEMA
    environment: dict[str, Any]
    machine: Machine
    size: Size
    clock: ClockName
    baseline: str
    lengths: list[int]
    main_length: int | None
    rows: list[Row]

    model_config = ConfigDict(strict=True, frozen=True, allow_inf_nan=False, populate_by_name=True)

    @property
    def parity_failed(self) -> bool:
        """Whether a layer differs from its reference."""
        return not all(row.parity.passed for row in self.rows)

    def plain(self) -> dict[str, Any]:
        """The record as JSON has it."""
        return self.model_dump(mode="json", by_alias=True)
