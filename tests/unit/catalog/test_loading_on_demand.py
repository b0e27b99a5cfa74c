"""Dotted paths are imported on demand and refused in plain words."""

from __future__ import annotations

from collections import OrderedDict

import pytest

from damcha_core.catalog.loading import load


def test_load_gives_the_attribute():
    assert load("collections:OrderedDict") is OrderedDict


@pytest.mark.parametrize("path", ["", "collections", "collections:", ":OrderedDict"])
def test_a_path_without_both_parts_is_refused(path):
    with pytest.raises(ValueError, match="is not of the form"):
        load(path)


def test_a_missing_module_or_attribute_is_an_import_error():
    with pytest.raises(ImportError):
        load("damcha_core.no_such_module:thing")
    with pytest.raises(ImportError, match="has no attribute Thing"):
        load("collections:Thing")
