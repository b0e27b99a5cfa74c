"""Attention layers of the catalogue and what they are built from."""

from damcha_core.attention.build import build_attention
from damcha_core.attention.damcha import DamchaAttention, build_damcha
from damcha_core.attention.generator import MetricGenerator
from damcha_core.attention.layer import AttentionLayer
from damcha_core.attention.mha import MultiHeadAttention, build_mha
from damcha_core.attention.parameter_groups import Factors, parameter_groups
from damcha_core.attention.stack import AttentionStack

__all__ = [
    "AttentionLayer",
    "AttentionStack",
    "DamchaAttention",
    "Factors",
    "MetricGenerator",
    "MultiHeadAttention",
    "build_attention",
    "build_damcha",
    "build_mha",
    "parameter_groups",
]
