"""The run file's sections: every key with its type, range, default and meaning.

This is the one home of the defaults. 0 and "" stand for "off" or "not given"; each description
says which.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, SerializeAsAny

from damcha_core.config.options import LARGEST_D_FF, LARGEST_N_LAYERS, DamchaOptions
from damcha_core.config.values import Device, FolderName, LanguageCode, Settings, Text


class RunSection(Settings):
    """What is run, where its results go, and on what."""

    task: Text = Field(
        default="digits", description="Task to train; `damcha train --help` lists them."
    )
    name: FolderName = Field(
        default="", description='Run folder runs/NAME; "": named after task, attention and seed.'
    )
    out: Text = Field(
        default="", description='Run folder as a path; it beats the name. "": not given.'
    )
    seed: int = Field(
        default=0, ge=0, le=2**63 - 1, description="Seed of every random draw of the run."
    )
    device: Device = Field(
        default="auto",
        description='"auto" (cuda, then mps, then cpu), "cpu", "cuda", "cuda:N" or "mps".',
    )
    threads: int = Field(
        default=0, ge=0, le=4096, description="CPU threads; 0: torch's own choice."
    )
    deterministic: bool = Field(
        default=False, description="Refuse CUDA operations that are not reproducible."
    )


class ModelSection(Settings):
    """The transformer."""

    d_model: int = Field(default=128, ge=1, le=65536, description="Width of a token, in features.")
    n_heads: int = Field(
        default=8, ge=1, le=1024, description="Attention heads; they divide d_model."
    )
    d_ff: int = Field(
        default=256, ge=1, le=LARGEST_D_FF, description="Width of the feed-forward part."
    )
    n_layers: int = Field(default=4, ge=1, le=LARGEST_N_LAYERS, description="Blocks in the stack.")
    dropout: float = Field(default=0.0, ge=0, lt=1, description="Share of activations dropped.")
    patch_size: int = Field(
        default=4,
        ge=1,
        le=1024,
        description="Side of a patch, in pixels; it divides data.image_size.",
    )
    causal: bool = Field(
        default=False, description="Tokens see only earlier ones (for images: in raster order)."
    )


class AttentionSection(Settings):
    """The attention layer and its own options (with those of a preset filled in)."""

    name: Text = Field(
        default="damcha", description="Attention layer or control, by its name in the catalogue."
    )
    options: SerializeAsAny[Settings] | None = Field(
        default=DamchaOptions(), description="The layer's own options; none: it has none."
    )

    def option_values(self) -> dict[str, Any]:
        """The options as plain keyword arguments of the layer's builder."""
        return {} if self.options is None else self.options.model_dump()


class DataSection(Settings):
    """Where the data are and how a sample is made."""

    root: Text = Field(
        default="./data", description="Folder of the data sets; DAMCHA_DATA replaces this default."
    )
    image_size: int = Field(default=32, ge=1, le=4096, description="Side of an image, in pixels.")
    mask_ratio: float = Field(
        default=0.5, ge=0, le=1, description="Share of the patches that reconstruction hides."
    )
    source_lang: LanguageCode = Field(
        default="en", description="Language that is translated, as the ending of its files."
    )
    target_lang: LanguageCode = Field(
        default="de", description="Language that it is translated to, likewise."
    )
    tokenizer: Literal["unigram", "bpe"] = Field(
        default="unigram", description="Kind of the SentencePiece model that a text run trains."
    )
    vocab_size: int = Field(
        default=8000,
        ge=1,
        le=1_000_000,
        description="Tokens of that model, marks and bytes included; fewer if the texts are few. "
        "For recall: one blank, and keys and values in halves.",
    )
    max_tokens: int = Field(
        default=512,
        ge=8,
        le=1_000_000,
        description="Longest text, source and target together: longer ones are not trained on, "
        "and cut where they are scored.",
    )
    n_pairs: int = Field(
        default=8,
        ge=2,
        le=10_000,
        description="Pairs of key and value that a recall sequence shows; each is asked for once.",
    )
    sequence_length: int = Field(
        default=0,
        ge=0,
        le=1_000_000,
        description="Tokens of a recall sequence, at least 3 a pair; 0: just that, so no blanks.",
    )
    train_samples: int = Field(
        default=10_000,
        ge=1,
        le=10**9,
        description="Sequences that recall draws for an epoch, new ones each time.",
    )
    easy_epochs: int = Field(
        default=0,
        ge=0,
        le=1_000_000,
        description="Epochs that recall trains on 4 pairs, which then double each epoch up to "
        "n_pairs; 0: all epochs have n_pairs.",
    )
    workers: int = Field(
        default=0, ge=0, le=256, description="Processes that load data; 0: none but the main one."
    )
    verify: bool = Field(default=True, description="Check the checksums of published data sets.")

    @property
    def recall_length(self) -> int:
        """Tokens of a recall sequence, where 0 has been read as 3 a pair."""
        return self.sequence_length or 3 * self.n_pairs


class TrainSection(Settings):
    """The optimisation, and what is kept of it."""

    epochs: int = Field(
        default=100, ge=1, le=1_000_000, description="Passes over the training data."
    )
    max_steps: int = Field(
        default=0,
        ge=0,
        le=10**9,
        description="Updates after which training ends; 0: off (see epochs).",
    )
    batch_size: int = Field(
        default=64,
        ge=1,
        le=1_000_000,
        description="Most samples in a micro-batch (see train.batch_tokens for texts).",
    )
    batch_tokens: int = Field(
        default=0,
        ge=0,
        le=100_000_000,
        description="Most tokens in a micro-batch of texts, padding included; 0: no such limit.",
    )
    accumulate: int = Field(default=1, ge=1, le=10_000, description="Micro-batches in one update.")
    lr: float = Field(default=1e-3, gt=0, le=10, description="Peak learning rate of AdamW.")
    weight_decay: float = Field(
        default=0.05, ge=0, le=10, description="Decoupled weight decay; 0: off."
    )
    warmup_steps: int = Field(
        default=100,
        ge=0,
        le=10**9,
        description="Updates of linear warm-up before the cosine; 0: off.",
    )
    min_lr_ratio: float = Field(
        default=0.01, ge=0, le=1, description="Floor of the learning rate, as a share of its peak."
    )
    clip_norm: float = Field(
        default=1.0, ge=0, le=1e6, description="Largest norm of the gradient; 0: not clipped."
    )
    ema_decay: float = Field(
        default=0.0, ge=0, lt=1, description="Decay an update of the averaged weights; 0: off."
    )
    label_smoothing: float = Field(
        default=0.0, ge=0, lt=1, description="Share of the target spread over all classes; 0: off."
    )
    patience: int = Field(
        default=0,
        ge=0,
        le=1_000_000,
        description="Epochs without a better main metric after which training stops; 0: off.",
    )
    precision: Literal["float32", "bfloat16", "float16", "float64"] = Field(
        default="float32",
        description="Number format of the arithmetic; weights stay float32 or wider.",
    )
    compile: bool = Field(default=False, description="Compile the model with torch.compile.")
    save_every_steps: int = Field(
        default=0,
        ge=0,
        le=10**9,
        description="Updates between checkpoints; 0: at the end of every epoch.",
    )
    keep_last: int = Field(
        default=2,
        ge=1,
        le=1_000_000,
        description="Newest checkpoints kept (the best one is kept too).",
    )
    stop_after_epochs: int = Field(
        default=0,
        ge=0,
        le=1_000_000,
        description="End early, leaving the schedule as it is; 0: off.",
    )
    horizon_steps: int = Field(
        default=0,
        ge=0,
        le=10**9,
        description="Length of the schedule, in updates; 0: from epochs or max_steps when the run "
        "starts.",
    )


class EvalSection(Settings):
    """How `damcha eval` and the validation during training measure."""

    split: Literal["valid", "test", "train", "unseen"] = Field(
        default="valid", description="Part of the data that is measured."
    )
    batch_size: int = Field(
        default=256, ge=1, le=1_000_000, description="Samples at a time; no result depends on it."
    )
    beam: int = Field(
        default=4,
        ge=1,
        le=1024,
        description="Width of the beam search; 1: greedy, as the validation during training is.",
    )
    length_penalty: float = Field(
        default=0.6,
        ge=0,
        le=10,
        description="Exponent of GNMT's length penalty ((5 + length) / 6); 0: none.",
    )
    max_new_tokens: int = Field(
        default=0,
        ge=0,
        le=100_000,
        description="Most tokens of a generated text; 0: 50 more than its source has.",
    )


class RunConfig(Settings):
    """Everything that a run file settles."""

    run: RunSection = RunSection()
    model: ModelSection = ModelSection()
    attention: AttentionSection = AttentionSection()
    data: DataSection = DataSection()
    train: TrainSection = TrainSection()
    eval: EvalSection = EvalSection()
