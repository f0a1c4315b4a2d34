"""Tests of estimators import Graphcore's names, as programs do."""

from ipufeed import compat

compat.install()
