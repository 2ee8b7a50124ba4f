"""What scikit-learn asks of an estimator, without scikit-learn: parameters, a name, and tags when it asks for them."""

from __future__ import annotations

import inspect
from typing import Any, Self

from legendre.core.errors import InvalidSetting, NotFitted, unknown_name


class Estimator:
    """Keeps the constructor's arguments as they came, so that scikit-learn can copy and search over them.

    Examples
    --------
    >>> import legendre as ld
    >>> ld.BoltzmannMachine(2).set_params(alpha=1.0)
    BoltzmannMachine(alpha=1.0)
    """

    @classmethod
    def _defaults(cls) -> dict[str, Any]:
        return {name: given.default for name, given in inspect.signature(cls).parameters.items()}

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the constructor's arguments; `deep` is there for scikit-learn and changes nothing."""
        del deep
        return {name: getattr(self, name) for name in sorted(self._defaults())}

    def set_params(self, **params: Any) -> Self:
        """Change some of the constructor's arguments; a fit made before is not touched."""
        for name, value in params.items():
            if name not in self._defaults():
                raise InvalidSetting(unknown_name(f"parameter of {type(self).__name__}", name, self._defaults()))
            setattr(self, name, value)
        return self

    def __repr__(self) -> str:
        changed = [f"{k}={getattr(self, k)!r}" for k, v in self._defaults().items() if not _same(getattr(self, k), v)]
        return f"{type(self).__name__}({', '.join(changed)})"

    def __sklearn_is_fitted__(self) -> bool:
        """Tell scikit-learn whether `fit` has been called."""
        return hasattr(self, "decomposition_")

    def _check_fitted(self) -> None:
        if not self.__sklearn_is_fitted__():
            raise NotFitted(f"this {type(self).__name__} is not fitted yet. Call fit first.")

    def __sklearn_tags__(self) -> Any:
        """Describe the estimator to scikit-learn, which alone calls this."""
        from sklearn.utils import Tags, TargetTags

        return Tags(estimator_type="density_estimator", target_tags=TargetTags(required=False))


def _same(value: object, default: object) -> bool:
    """Compare by type first: an array compared with a number would give an array."""
    return value is default or (
        type(value) is type(default) and isinstance(value, (int, float, str)) and value == default
    )
