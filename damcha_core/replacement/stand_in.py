"""What stands where an attention of another library stood.

Shapes: B batch, N tokens, D width.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor, nn

from damcha_core.attention.carry import Carry
from damcha_core.attention.layer import AttentionLayer
from damcha_core.errors import UsageError


@dataclass(frozen=True)
class Sizes:
    """Sizes of an attention that is to be replaced.

    Attributes:
        d_model: width D of its tokens.
        n_heads: number of heads.
        dropout: probability with which it drops an attention weight in training.
    """

    d_model: int
    n_heads: int
    dropout: float


class Chain:
    """Hands what one attention of a pass leaves to the next one (`Carry`).

    The model around the attentions knows nothing of it, so the first one starts a new pass and the
    last one ends it.

    Args:
        names: the attentions in the order in which they run.
    """

    def __init__(self, names: list[str]) -> None:
        self.names = names
        self.expected = 0
        self.carry: Carry | None = None

    def enter(self, place: int) -> Carry:
        """The carry for the attention of this place.

        Raises:
            UsageError: the attention before it did not run last.
        """
        if place == 0:
            self.carry, self.expected = Carry(), 0
        if self.carry is None or place != self.expected:
            raise UsageError(
                f"{self.names[place]}: this attention reads what {self.names[place - 1]} left in "
                "the same pass, so all of them have to run once each, in order; a pass that runs "
                "some again (activation checkpointing) cannot be served"
            )
        return self.carry

    def leave(self, place: int) -> None:
        """Note that the attention of this place is done."""
        self.expected = place + 1
        if self.expected == len(self.names):
            self.carry = None


class StandIn(nn.Module):
    """An attention of the catalogue behind the interface of another one.

    Args:
        attention: the layer that does the work.
        name: name of the replaced module, for errors.
        place: number of the layer in its stack.
        chain: of the stack; None where the layer reads nothing from the one before.
        shared: module that all layers of the stack use; the first stand-in registers it.
    """

    kind: ClassVar[str]
    """What it stands for, in words."""

    def __init__(
        self,
        attention: AttentionLayer,
        *,
        name: str,
        place: int,
        chain: Chain | None,
        shared: nn.Module | None,
    ) -> None:
        super().__init__()
        self.attention = attention
        if shared is not None:
            self.shared = shared
        self.name, self.place, self.chain = name, place, chain

    @classmethod
    def stands_for(cls, module: nn.Module) -> bool:
        """Whether a module is of the kind that this class replaces."""
        raise NotImplementedError

    @classmethod
    def sizes(cls, module: nn.Module) -> Sizes:
        """Sizes of such a module."""
        raise NotImplementedError

    @classmethod
    def objection(cls, module: nn.Module) -> str:
        """Why such a module cannot be replaced, in words; empty: it can."""
        raise NotImplementedError

    def adopt(self, module: nn.Module) -> None:
        """Take over what the replaced module has beside its attention."""
        raise NotImplementedError

    def attend(self, x_BND: Tensor, key_mask: Tensor | None, is_causal: bool) -> Tensor:
        """The attention, under the masks of the catalogue (True = real token)."""
        if key_mask is not None:
            key_mask = key_mask.expand(x_BND.shape[:2])
        carry = None if self.chain is None else self.chain.enter(self.place)
        out_BND: Tensor = self.attention(x_BND, key_mask=key_mask, is_causal=is_causal, carry=carry)
        if self.chain is not None:
            self.chain.leave(self.place)
        return out_BND

    def extra_repr(self) -> str:
        return f"in place of {self.kind}"
