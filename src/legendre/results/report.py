"""The report page: one HTML file that needs no network.

The template, the style sheet and the script are in the folder ``page``. Sentences and tables are written into the page
as HTML. What the script draws is written into it as one block of JSON; functions named ``..._data`` make its sections.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from html import escape
from importlib.resources import files
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from legendre.core.errors import InvalidQuery, LegendreError
from legendre.core.files import replacing
from legendre.core.labels import Labels
from legendre.core.origin import Origin
from legendre.core.sums.quotient import Quotient
from legendre.core.text import fragment, shorten
from legendre.core.tied_parameters import Terms
from legendre.core.types import PathName, Shape, frozen
from legendre.data.observation import Observation
from legendre.data.read import TensorLike, read
from legendre.results.effects import Effect, notes_of, values_shown
from legendre.results.views import FitPair, Pair, find_worst, residuals_of, slice_modes
from legendre.solvers.loop import Step

if TYPE_CHECKING:
    from legendre.results.base import Result
    from legendre.results.decomposition import Decomposition

Section = dict[str, Any]  # what the script draws in one section, or in all, as JSON


@frozen
class ReportContent:
    """What the page of a result shows besides its summary, certificate and effects, which it takes from `result`.

    Each kind of result makes one in its method `_content`, because each has its own title, call, X and Q.
    """

    result: Result
    title: str
    line: str  # one sentence below the title
    call: str  # Python code that computes the result again
    labels: Labels  # of the modes that effects and parameters are about
    terms: Terms | None = None  # what each parameter acts on; None: parameters are not listed
    pair: Pair | None = None  # X and Q; None if X is not known
    fit: Decomposition | None = None  # the fit with a path, observed means and levels with few data to be shown, if any


def content_of_fit(fit: Decomposition, data: TensorLike | None = None) -> ReportContent:
    """Gather what the page of a decomposition shows.

    X is the one that the fit holds, or `data`, for a fit that was read from a file; without it there are no slices.
    The summary on the page is that of the fit as it was read, and whatever needs X is drawn from `with_data`.
    """
    with_data = fit if data is None else replace(fit, data=_read_again(fit, data))
    return ReportContent(
        result=fit,
        title="Legendre decomposition",
        line=f"{shape_line(fit.labels)}, {fit.n_params:,} parameters",
        call=call_of_fit(fit),
        labels=fit.labels,
        terms=fit.model.terms,
        pair=None if with_data.data is None else FitPair(with_data),
        fit=with_data,
    )


def write_page(path: PathName, content: ReportContent) -> None:
    """Write the page: its template with every ``{{name}}`` replaced. If that fails, an existing file is kept.

    All are replaced in a single pass, so that a label of the user's that looks like ``{{name}}`` is not replaced.
    """
    certificate = content.result.certificate()
    # a label such as "</script>" must not end the script element that holds the JSON: its characters are escaped
    unsafe = {ord("<"): "\\u003c", ord(">"): "\\u003e", ord("&"): "\\u0026"}
    values = {
        "title": escape(content.title),
        "line": escape(content.line),
        "tables": fragment(content.result.tables()),
        "kind": "good" if certificate.good else "bad",
        "verdict": escape(certificate.verdict),
        "words": "".join(f"<p>{escape(word)}</p>" for word in certificate.words),
        "call": escape(content.call),
        "data": json.dumps(page_data(content), allow_nan=False, separators=(",", ":")).translate(unsafe),
        "style": _read_part("page.css"),
        "script": _read_part("page.js"),
    }
    page = re.sub(r"\{\{(\w+)\}\}", lambda place: values[place[1]], _read_part("page.html"))
    with replacing(path, "report.html") as stream:
        stream.write(page.encode("utf-8"))


def _read_part(name: str) -> str:
    """Return the text of a file of the folder ``page``, which holds the template, the style sheet and the script."""
    return files("legendre.results").joinpath("page", name).read_text(encoding="utf-8")


def page_data(content: ReportContent) -> Section:
    """Gather what the page's script draws, by section, as the JSON that is written into the page.

    A section is missing if the result has nothing to show in it. ``notes`` say, for each section, what is left out of
    it, or why it is empty. A section that fails, because X is too large for it, becomes a note: the page is written
    without it.
    """
    result, effects = content.result, content.result._effects_to_draw()
    notes: dict[str, str] = {}
    data: Section = {"notes": notes, "history": history_data(result.history, result.tol)}
    if effects:
        data["effects"] = effects_data(content, effects)
        if content.fit is not None:
            notes["effects"] = ". ".join(notes_of(content.fit, "fitted", effects)) + "."
    if content.fit is not None and content.fit._rounds:
        shown = ["held_out", "kl", "rmse"]
        shown += ["bic"] if content.pair is None or content.pair.counts else []  # BIC is meant for counts
        data["path"] = {name: round_all([getattr(step, name) for step in content.fit.path]) for name in shown}
        data["path"]["n_params"] = [step.n_params for step in content.fit.path]
    if content.terms is not None:
        data["parameters"], notes["parameters"] = parameters_data(content.terms, result, content.labels)
    if content.pair is None:
        notes["slices"] = (
            "This result was read from a file, which does not hold X. Pass the data for slices and residuals."
        )
        return data
    make: Callable[[Pair], tuple[Any, str]]
    for name, make in (("slices", slices_data), ("residuals", residuals_data)):
        try:
            data[name], notes[name] = make(content.pair)
        except (LegendreError, MemoryError) as problem:
            notes[name] = f"{name.capitalize()} are not shown: {problem}"
    return data


def round_all(values: ArrayLike) -> list[float | None]:
    """List numbers, or the entries of an array in C order, with six digits, which keeps the page small.

    NaN and infinity, which JSON lacks, become ``None``.

    >>> round_all([1 / 3, 2.0, float("nan")])
    [0.333333, 2.0, None]
    """
    return [float(f"{value:.6g}") if math.isfinite(value) else None for value in np.ravel(values).tolist()]


def history_data(history: Sequence[Step], tol: float, most: int = 400) -> Section:
    """Gather the section of the history: the residual after each step, and the tolerance.

    The page cannot show more than `most` steps: of a longer history, every n-th and the last are listed.
    """
    shown = [*history[: -1 : -(-len(history) // most)], history[-1]]  # n = steps / most, rounded up
    return {
        "step": [at.iteration for at in shown],
        "residual": round_all([at.residual for at in shown]),
        "tol": tol,
    }


def effects_data(content: ReportContent, effects: Sequence[Effect], least: float = 5e-4) -> Section:
    """Gather the section of effects: the shares of the 24 largest, lines of 9 single modes, and maps of 6 pairs.

    A line or map has the logarithm of the factor of each level or pair of levels: ``None`` for levels with hardly any
    data, and at most 400 levels of a line and 128 x 128 of a map, as many as the page has pixels for. An effect with a
    share below `least`, which would be written as 0.0 %, has neither a line nor a map.
    """
    order = sorted(effects, key=lambda effect: -effect.share)[:24]
    drawn = [effect for effect in order if effect.share >= least]
    lines = [effect for effect in drawn if len(effect.modes) == 1][:9]
    maps = [effect for effect in drawn if len(effect.modes) == 2][:6]
    shares = [[shorten(effect.name, 96), *round_all(effect.share)] for effect in order]
    rest = 1.0 - sum(effect.share for effect in order)
    return {
        "shares": [*shares, ["everything else", *round_all(rest)]] if rest > least else shares,
        "lines": [_effect_data(content, effect, 400) for effect in lines],
        "maps": [_effect_data(content, effect, 128) for effect in maps],
    }


def _effect_data(content: ReportContent, effect: Effect, most: int) -> Section:
    """Gather what the page draws of one effect, a line or a map: names, values, and observed means for a line.

    At most `most` levels of each mode are listed. The means are known only if the content has a fit that holds X.
    """
    labels, (values, places, means) = content.labels, values_shown(content.fit, effect, most)
    return {
        "names": [shorten(labels.mode(k), 48) for k in effect.modes],
        "share": round_all(effect.share)[0],
        "ordered": labels.is_ordered(effect.modes[0]),
        "levels": [[shorten(labels.level(k, i), 48) for i in at] for k, at in zip(effect.modes, places, strict=True)],
        "values": round_all(values),
        "observed": None if means is None else round_all(means),
    }


def parameters_data(terms: Terms, result: Result, labels: Labels, most: int = 4_000) -> tuple[list[list[Any]], str]:
    """List parameters: number (from 1), what each acts on, theta and eta; at most `most`, with the largest ``|theta|``.

    The second value is a note for the reader, empty if all are listed.
    """
    shown = np.sort(np.argsort(-np.abs(result.theta), kind="stable")[:most])
    # eta plus the shortfall is the probability of the cells that the parameter acts on, also for boxes
    theta, eta = result.theta, result.eta + terms.as_ties().shortfall
    rows = [
        [i + 1, shorten(name, 200), *round_all([theta[i], eta[i]])]
        for i, name in zip(shown.tolist(), terms.name_all(labels, shown), strict=True)
    ]
    cut = f"The {len(rows):,} parameters with the largest |theta| of {len(eta):,} are listed."
    return rows, cut if len(rows) < len(eta) else ""


def residuals_data(pair: Pair, most: int = 50) -> tuple[list[list[Any]] | None, str]:
    """List the `most` cells with the largest residuals: name, X, Q and residual, as in `plot.residuals`.

    The second value is a note for the reader: that there are no residuals (then the first is ``None``), or which cells
    were not examined. It is empty if all were.
    """
    found, worst, residuals = find_worst(pair, most)
    rows = [
        [shorten(pair.labels.cell(found.cell(i)), 200), *round_all([found.x[i], found.q[i], residuals[i]])]
        for i in worst.tolist()
    ]
    if not rows:
        return None, "X and Q agree in every cell, up to rounding."
    return rows, f"{found.note}." if found.note else ""


def slices_data(
    pair: Pair, max_cells: int = 200_000, max_table: int = 1 << 23, pixels: int = 128
) -> tuple[Section, str]:
    """Sum X and Q over all modes but three: one for the page's slider, one for rows, one for columns.

    The modes are those of `plot.slices`; the first ones are dropped until the table has at most `max_table` entries, so
    that it can be formed. To keep the page small, neighbouring levels are then added up, until rows and columns have at
    most `pixels` levels, and the table at most `max_cells` cells.

    Return the section's data and a note that says in words what is not shown. X and Q always have three axes: the first
    ones have length 1, and no name, if there are fewer modes. ``start`` is the slice with the largest residuals,
    which the page shows first.
    """
    labels, shape = pair.labels, pair.labels.shape
    modes = slice_modes(shape)
    while len(modes) > 1 and math.prod(shape[k] for k in modes) > max_table:
        modes = modes[1:]
    lead = 3 - len(modes)  # axes of length 1
    x, q = (part.reshape((1,) * lead + part.shape) for part in pair.table(modes))
    # the numbers of levels after adding up: first of rows and columns, then of slices
    rows, columns = (min(n, pixels) for n in x.shape[1:])
    sizes = min(x.shape[0], max(1, max_cells // (rows * columns))), rows, columns
    cuts = tuple(np.arange(n) * length // n for n, length in zip(sizes, x.shape, strict=True))
    joined = [labels.mode(k) for k, n in zip(modes, sizes[lead:], strict=True) if n < shape[k]]
    if joined:  # an entry that is NaN, because no cell of the sample space is in it, adds nothing
        x, q = (Quotient(part.shape, cuts).merge(np.nan_to_num(part)) for part in (x, q))
    levels = [[""]] * lead
    for k, cut in zip(modes, cuts[lead:], strict=True):  # a name for each level, or for those from cut to cut
        levels.append([shorten(labels.name_levels(k, i, j), 48) for i, j in pairwise([*cut.tolist(), shape[k]])])
    others = [labels.mode(k) for k in range(len(shape)) if k not in modes]
    summed = ", ".join(others) if len(others) <= 6 else f"{len(others)} modes"
    notes = [f"X and Q are summed over {summed}."] if others else []
    notes += [f"Neighbouring levels of {' and of '.join(joined)} are added up."] if joined else []
    # NaN: not observed; infinite: X > 0 where Q is 0
    misfits = np.nan_to_num(residuals_of(pair, x, q) ** 2, nan=0.0, posinf=0.0).sum(axis=(1, 2))
    return {
        "modes": [None] * lead + [shorten(labels.mode(k), 48) for k in modes],
        "levels": levels,
        "shape": x.shape,
        "start": int(np.argmax(misfits)),
        "x": round_all(x),
        "q": round_all(q),
    }, " ".join(notes)


def shape_line(labels: Labels) -> str:
    """Write names and sizes of the modes for the line below the title; of more than 8 modes only their number.

    More would not fit in a line.
    """
    if labels.n_modes > 8:
        return f"order {labels.n_modes}"
    return " × ".join(f"{labels.mode(k)} ({n:,})" for k, n in enumerate(labels.shape))


def call_of_fit(fit: Decomposition, task: str = "decompose", basis: str | None = None) -> str:
    """Write the Python code that fits the same model again, for the end of the page, see `write_call`.

    The solver is left out, because it does not change Q. `basis` is what `task` calls the basis: a formula.
    """
    support, arranges = fit.model.support, task == "decompose" and fit._rounds and fit.labels.given
    mask: Any = support.mask
    known: Any = None if fit.missing is None else ~fit.missing  # the sample space that follows from X
    given = {
        # `reason` is set if the data chose the basis: then they choose it again
        "basis": basis or (None if fit.reason else fit.recipe),
        # the order that levels were given, or () for none: by default a grown basis arranges levels that are names
        "unordered": fit.arrangement or (() if arranges else None),
        "counts": fit.origin.counted,
        "support": "nonzero" if support.points is not None else None if np.array_equal(mask, known) else mask,
        "base": fit.model.base,
        "tol": None if fit.tol == 1e-10 else fit.tol,
    }
    return write_call(task, fit.shape, fit.origin, given)


def write_call(task: str, shape: Shape, origin: Origin, given: Mapping[str, Any], most: int = 300) -> str:
    """Write the Python code that calls a function of the library and writes a page of what it returns.

    Names and levels of an array are added to the arguments in `given`; one that is ``None`` is left out. One whose repr
    has more than `most` letters, or is not Python (it has a "<", or is an array), is written as its name:
    ``basis=basis``; the reader has to supply it.
    """
    if origin.form == "array":  # other kinds of X, such as data frames, bring their labels with them
        labels = origin.of(shape).restore_order()
        levels = [own if own is None or own.dtype.kind in "mMO" else own.tolist() for own in labels.levels or ()]
        given = {**given, "names": labels.names and list(labels.names), "levels": levels or None}
    texts = {name: repr(value) for name, value in given.items() if value is not None}
    hard = [name for name, text in texts.items() if len(text) > most or re.search(r"<|array\(", text)]
    arguments = ["X", *(f"{name}={name if name in hard else text}" for name, text in texts.items())]
    # the basis is the second positional argument
    call = f"fit = ld.{task}({', '.join(arguments)})".replace("X, basis=", "X, ")
    return f"import legendre as ld\n\n{call}\nfit.report('report.html')"


def refuse_data(data: TensorLike | None) -> None:
    """Refuse the argument `data` of `report` for a result that holds X, instead of ignoring it."""
    if data is not None:
        raise InvalidQuery("report: this result holds X itself. Leave the data out.")


def read_shaped(data: TensorLike, shape: Shape) -> Observation:
    """Read the X that a caller of `report` passes for a loaded result; refuse one whose shape is not `shape`.

    Files of decompositions and of fits with hidden modes do not hold X.
    """
    found = read(data)
    if found.shape != shape:
        raise InvalidQuery(f"report: data has shape {found.shape}, but the fit is of a tensor of shape {shape}.")
    return found


def _read_again(fit: Decomposition, data: TensorLike) -> Observation:
    """Read the X that a loaded fit was made of, as the caller passes it, and put its levels in the order of the fit.

    Refuse data with another shape, another sum or other levels: slices and residuals would compare unrelated tensors.
    """
    support, base, found = fit.model.support, fit.model.base, read_shaped(data, fit.shape)
    straight = fit.labels.straighten  # puts a mask or base measure of the fit in the order of levels of X
    # read it again on the sample space of the fit
    if support.points is not None:
        found = read(data, "nonzero")
    elif support.mask is not None or base is not None:
        found = read(data, straight(support.on_grid()), None if base is None else straight(base))
    if not abs(found.total - fit.total) <= 1e-6 * fit.total:  # X may have been stored as float32
        raise InvalidQuery(
            f"report: data sums to {found.total:.6g}, but the fit is of a tensor whose sum is {fit.total:.6g}. "
            "Pass the X that was fitted."
        )
    labels = fit.labels.restore_order()
    for k, (fitted, given) in enumerate(zip(labels.levels or (), found.labels.levels or (), strict=False)):
        if fitted is not None and given is not None and not np.array_equal(fitted.astype(str), given.astype(str)):
            raise InvalidQuery(f"report: data has other levels of {labels.mode(k)} than the fit, or in another order.")
    return found if fit.labels.order is None else found.reorder(fit.labels.order)
