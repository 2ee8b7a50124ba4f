"""Inference for counts: Q as a log-linear model of a contingency table, tested."""

from legendre.inference.ratio import LikelihoodRatio as LikelihoodRatio
from legendre.inference.ratio import likelihood_ratio as likelihood_ratio
from legendre.inference.result import Inference as Inference
from legendre.inference.result import infer as infer
