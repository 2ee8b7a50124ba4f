"""What a log-linear model shows of its inference: the same numbers, under the same names."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from legendre.core.labels import Mode
from legendre.data.read import TensorLike
from legendre.results.inference.bootstrap import Bootstrap
from legendre.results.inference.coding import Coding
from legendre.results.inference.coefficients import Coefficients
from legendre.results.inference.result import Inference


class InferenceView:
    """Tests of fit, coefficients and small-sample answers of an inference."""

    if TYPE_CHECKING:  # a dataclass has it

        @property
        def inference(self) -> Inference:
            """The inference."""

    @property
    def g2(self) -> float:
        """The likelihood ratio statistic against the saturated model."""
        return self.inference.g2

    @property
    def x2(self) -> float:
        """Pearson's statistic."""
        return self.inference.x2

    @property
    def df(self) -> int:
        """Degrees of freedom of both."""
        return self.inference.df

    @property
    def g2_p_value(self) -> float:
        """The p-value of `g2`."""
        return self.inference.g2_p_value

    @property
    def x2_p_value(self) -> float:
        """The p-value of `x2`."""
        return self.inference.x2_p_value

    @property
    def aic(self) -> float:
        """Akaike's criterion, as R's ``glm(family = poisson)``."""
        return self.inference.aic

    @property
    def bic(self) -> float:
        """Schwarz's criterion, with the logarithm of N."""
        return self.inference.bic

    @property
    def log_likelihood(self) -> float:
        """The multinomial log-likelihood."""
        return self.inference.log_likelihood

    def coef(
        self,
        contrasts: Coding = "treatment",
        *,
        reference: Mapping[Any, Any] | None = None,
        exp: bool = False,
        level: float = 0.95,
    ) -> Coefficients:
        """Return the coefficients, see `Inference.coef`.

        Examples
        --------
        >>> import legendre as ld
        >>> m = ld.loglinear(ld.datasets.drug_use(), "alcohol + cigarette + marijuana")
        >>> round(m.coef(reference={"alcohol": "no"})["alcohol[yes]"], 4)
        1.7851
        """
        return self.inference.coef(contrasts, reference=reference, exp=exp, level=level)

    def contrast(
        self,
        weights: ArrayLike | Mapping[str, float],
        cells: ArrayLike | None = None,
        *,
        names: Sequence[str] | None = None,
        exp: bool = False,
        level: float = 0.95,
    ) -> Coefficients:
        """Estimate combinations of coefficients by name, of theta, or of log means; see `Inference.contrast`."""
        return self.inference.contrast(weights, cells, names=names, exp=exp, level=level)

    def odds(
        self,
        first: Mode,
        second: Mode,
        given: Mapping[Any, Any] | None = None,
        *,
        contrasts: Literal["local", "treatment"] = "local",
        reference: Mapping[Any, Any] | None = None,
        level: float = 0.95,
    ) -> Coefficients:
        """Return odds ratios of two variables under the model, see `Inference.odds`."""
        return self.inference.odds(first, second, given, contrasts=contrasts, reference=reference, level=level)

    def report(self, path: str | os.PathLike[str], data: TensorLike | None = None) -> None:
        """Write one HTML page with everything about the fit, see `Decomposition.report`."""
        self.inference.fit.report(path, data)

    def bootstrap(
        self,
        n: int = 999,
        rng: int | np.random.Generator | None = None,
        *,
        jobs: int = 1,
        conditional: bool = False,
    ) -> Bootstrap:
        """Return p-values from tables that are drawn from the model, see `Inference.bootstrap`."""
        return self.inference.bootstrap(n, rng, jobs=jobs, conditional=conditional)

    def evidence(self, alpha: float = 1.0) -> float:
        """Return the log marginal likelihood, see `Inference.evidence`."""
        return self.inference.evidence(alpha)
