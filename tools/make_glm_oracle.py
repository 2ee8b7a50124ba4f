"""Make tests/oracles/glm_oracle.json: R's glm on every table and model of tests/oracles/contingency_oracle.json.

Run it where Rscript is on the path (base R is enough): ``python tools/make_glm_oracle.py``. Each model is fitted to the
cells that can be positive, with treatment contrasts on the first levels.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

FOLDER = Path(__file__).parents[1] / "tests" / "oracles"
ABOUT = (
    "R's glm.fit(family = poisson()) on the cells where the fit of contingency_oracle.json is positive; models in the "
    "order of that file. coef and se: treatment contrasts on the first levels, one per cell of the interactions basis "
    "(its non-zero coordinates are the levels of the term), cells in C order, null where R says NA; aic and rank (with "
    "the constant) as R gives them. Where all_kway is set also deviance residuals and, as adjusted, Pearson residuals "
    "over sqrt(1 - hat); cells in C order, null outside the fit and where hat is 1. Made by tools/make_glm_oracle.py."
)
PROGRAM = r"""
args <- commandArgs(TRUE)
dims <- as.integer(strsplit(args[1], ",")[[1]])
counts <- scan(args[2], quiet = TRUE)
models <- readLines(args[3])
cells <- expand.grid(lapply(rev(dims), function(d) factor(seq_len(d) - 1)))[, rev(seq_along(dims)), drop = FALSE]
names(cells) <- LETTERS[seq_along(dims)]
number <- function(x) sprintf("%.10g", x)
for (line in models) {
  parts <- strsplit(line, ";")[[1]]
  alive <- strsplit(parts[2], "")[[1]] == "1"
  design <- model.matrix(as.formula(paste("~", parts[1])), cells)[alive, , drop = FALSE]
  solve <- function(start) suppressWarnings(
    glm.fit(design, counts[alive], family = poisson(), mustart = start, control = list(epsilon = 1e-10, maxit = 200)))
  # epsilon / 1000 is also glm's tolerance for aliased columns, so that it must not be smaller: go on from the end
  fit <- solve(fitted(solve(counts[alive] + 0.1)))
  class(fit) <- c("glm", "lm")
  se <- setNames(rep(NA_real_, ncol(design)), colnames(design))
  known <- summary(fit)$coefficients
  se[rownames(known)] <- known[, 2]
  h <- suppressWarnings(lm.influence(fit, do.coef = FALSE)$hat)
  adjusted <- suppressWarnings(residuals(fit, "pearson") / sqrt(1 - h))
  adjusted[h > 1 - 1e-9] <- NA
  cat(number(AIC(fit)), fit$rank, paste(colnames(design), collapse = " "), paste(number(coef(fit)), collapse = " "),
      paste(number(se), collapse = " "), paste(number(adjusted), collapse = " "),
      paste(number(residuals(fit, "deviance")), collapse = " "), sep = "\t")
  cat("\n")
}
"""


def formula(margins: list[list[int]]) -> str:
    """Write margins as a formula of R."""
    return " + ".join("*".join(chr(ord("A") + k) for k in margin) for margin in margins)


def cell(name: str, order: int) -> tuple[int, ...]:
    """Read a coefficient's name such as A1:C2."""
    levels = {ord(part[0]) - ord("A"): int(part[1:]) for part in name.split(":")}
    return tuple(levels.get(k, 0) for k in range(order))


def numbers(text: str) -> list[float | None]:
    """Read numbers of R; NA is None."""
    return [None if entry in ("NA", "NaN") else float(entry) for entry in text.split()]


def record(line: str, model: dict[str, Any], order: int) -> dict[str, Any]:
    """Read what R printed of one model."""
    aic, rank, names, coef, se, adjusted, deviance = line.split("\t")
    by_cell = sorted(
        (cell(name, order), b, s)
        for name, b, s in zip(names.split(), numbers(coef), numbers(se), strict=True)
        if name != "(Intercept)"
    )
    out: dict[str, Any] = {"aic": float(aic), "rank": int(rank)}
    out |= {"coef": [b for _, b, _ in by_cell], "se": [s for _, _, s in by_cell]}
    if model["all_kway"] is not None:
        for name, text in (("adjusted", adjusted), ("deviance", deviance)):
            grid: list[float | None] = [None] * len(model["fit"])
            for place, value in zip(np.flatnonzero(model["fit"]).tolist(), numbers(text), strict=True):
                grid[place] = value
            out[name] = grid
    return out


def fits(X: np.ndarray[Any, np.dtype[Any]], models: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Fit models to a table by R."""
    with tempfile.TemporaryDirectory() as folder:
        program, counts, asked = (Path(folder) / name for name in ("glm.R", "counts", "models"))
        program.write_text(PROGRAM)
        counts.write_text(" ".join(str(int(n)) for n in X.ravel()))
        lines = (formula(m["margins"]) + ";" + "".join("01"[value > 0] for value in m["fit"]) for m in models)
        asked.write_text("\n".join(lines) + "\n")
        command = ["Rscript", "--vanilla", str(program), ",".join(map(str, X.shape)), str(counts), str(asked)]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return [record(line, m, X.ndim) for line, m in zip(done.stdout.splitlines(), models, strict=True)]


def main() -> None:
    """Write the file."""
    oracle = json.loads((FOLDER / "contingency_oracle.json").read_text())["tables"]
    tables = dict(np.load(FOLDER / "contingency.npz", allow_pickle=False))
    out = {name: fits(tables[name], entry["models"]) for name, entry in oracle.items()}
    text = json.dumps({"about": ABOUT, "tables": out}, separators=(",", ":"))
    (FOLDER / "glm_oracle.json").write_text(text.replace('{"aic"', '\n{"aic"') + "\n")


if __name__ == "__main__":
    main()
