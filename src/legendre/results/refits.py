"""Fits of a part of a decomposition's parameters, and of its model to other counts: all start from X as it was read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, Self, cast

import numpy as np

from legendre.core.arguments import is_whole
from legendre.core.errors import InvalidSetting
from legendre.core.types import FloatArray, IntArray
from legendre.results.growth_path import Round
from legendre.results.questions import Questions


class Refits(Questions):
    """What is fitted again; see `Decomposition` for the fields."""

    path: Sequence[Round]
    _refit: Callable[..., Any] | None
    ranking: Callable[[], IntArray] | None

    def order(self) -> IntArray:
        """Return the places in `basis` of the cells that `adaptive` chose, those that matter most first.

        For every m the first m are a good basis of m cells: again and again the cells that are missed least are left
        out and the others fitted anew, and the last to go come first. Cells of `adaptive(..., include=)` stay in front.
        Computed when it is first asked for, in about the time of growing, and kept.

        Examples
        --------
        >>> import legendre as ld
        >>> fit = ld.decompose([[1, 2, 2], [3, 12, 9], [3, 12, 14]], ld.adaptive(3))
        >>> [fit.basis[place].tolist() for place in fit.order()]
        [[1, 1], [1, 0], [2, 2]]
        """
        return self._order.copy()

    @cached_property
    def _order(self) -> IntArray:
        if not self.path:
            raise InvalidSetting("this basis was not grown by adaptive(...); fit a part of it anew.")
        if self._refit is None:
            raise InvalidSetting("X is not at hand (this fit was loaded from a file); fit a part of its basis anew.")
        return np.arange(self.n_params) if self.ranking is None else self.ranking()

    def at(self, n_params: int) -> Self:
        """Return the exact fit with the `n_params` cells of an adaptive basis that matter most, see `order`.

        Examples
        --------
        >>> import legendre as ld
        >>> fit = ld.decompose([[1, 2, 2], [3, 12, 9], [3, 12, 14]], ld.adaptive(3))
        >>> fit.at(2).basis.tolist()
        [[1, 1], [1, 0]]
        """
        if not self.path:
            raise InvalidSetting("this basis was not grown by adaptive(...); fit a part of it anew.")
        if not is_whole(n_params, 0) or n_params > self.n_params:
            raise InvalidSetting(f"at({n_params!r}): the path has 0 to {self.n_params} parameters.")
        return self.refitted(self._order[:n_params])

    def refitted(self, columns: IntArray) -> Self:
        """Return the exact fit with some of the parameters, given by their places in `basis`."""
        if self._refit is None:
            raise InvalidSetting("X is not at hand (this fit was loaded from a file); fit a part of its basis anew.")
        return cast(Self, replace(self._refit(columns), origin=self.origin))

    def fitted_to(self, counts: FloatArray) -> Self:
        """Return the exact fit of the same model to other counts on the cells of the support, in C order."""
        if self._refit is None:
            raise InvalidSetting("X is not at hand (this fit was loaded from a file); fit its basis anew.")
        return cast(Self, self._refit(np.arange(self.n_params), counts))
