"""Attention layers of the catalogue and what they are built from."""

from damcha_core.attention.build import build_attention
from damcha_core.attention.cache import AttentionCache, KeyValueCache, ReplayCache, StackCache
from damcha_core.attention.carry import Carry
from damcha_core.attention.collaborative import CollaborativeAttention
from damcha_core.attention.damcha import DamchaAttention, build_damcha
from damcha_core.attention.dcmha import ComposedAttention
from damcha_core.attention.differential import DifferentialAttention
from damcha_core.attention.elliptical import EllipticalAttention
from damcha_core.attention.gated import GatedAttention
from damcha_core.attention.generator import MetricGenerator
from damcha_core.attention.layer import AttentionLayer
from damcha_core.attention.mha import MultiHeadAttention, build_mha
from damcha_core.attention.parameter_groups import Factors, parameter_groups
from damcha_core.attention.stack import AttentionStack
from damcha_core.attention.talking_heads import TalkingHeadsAttention

__all__ = [
    "AttentionCache",
    "AttentionLayer",
    "AttentionStack",
    "Carry",
    "CollaborativeAttention",
    "ComposedAttention",
    "DamchaAttention",
    "DifferentialAttention",
    "EllipticalAttention",
    "Factors",
    "GatedAttention",
    "KeyValueCache",
    "MetricGenerator",
    "MultiHeadAttention",
    "ReplayCache",
    "StackCache",
    "TalkingHeadsAttention",
    "build_attention",
    "build_damcha",
    "build_mha",
    "parameter_groups",
]
