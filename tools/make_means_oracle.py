"""Make tests/oracles/means_oracle.json: intervals of MASS and means of emmeans for ten log-linear models.

Run it where Rscript is on the path, with the packages MASS and emmeans: ``python tools/make_means_oracle.py``.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

TARGET = Path(__file__).parents[1] / "tests" / "oracles" / "means_oracle.json"
ABOUT = (
    "glm(n ~ formula, poisson or quasipoisson) of R's own tables, treatment contrasts. Numbers by name: profile is "
    "confint() of MASS, which interpolates between fits, and exact the same ends by uniroot() of glm.fit(); vcov the "
    "diagonal of vcov(); fit and error are predict(se.fit = TRUE) on the scale of logarithms, in C order; means, se "
    "and ends are emmeans() of some variables: exp(mean), the SE of its logarithm, both ends of its interval. Made by "
    "tools/make_means_oracle.py."
)
MODELS = [
    ("HairEyeColor", "Hair*Eye + Sex", "poisson", "Sex"),
    ("HairEyeColor", "Hair*Sex + Eye", "poisson", "Hair,Sex"),
    ("HairEyeColor", "Hair*Eye + Hair*Sex + Eye*Sex", "poisson", "Eye"),
    ("HairEyeColor", "Hair + Eye + Sex", "quasipoisson", "Hair"),
    ("UCBAdmissions", "Admit*Dept + Gender*Dept", "poisson", "Dept"),
    ("UCBAdmissions", "Admit*Gender + Admit*Dept + Gender*Dept", "poisson", "Admit,Gender"),
    ("UCBAdmissions", "Admit + Gender*Dept", "quasipoisson", "Gender"),
    ("breaks", "wool*tension", "poisson", "wool"),
    ("breaks", "wool + tension", "quasipoisson", "tension"),
    ("infert", "education + spontaneous", "poisson", "education"),
]
PROGRAM = r"""
suppressMessages({library(MASS); library(emmeans)})
args <- commandArgs(TRUE)
breaks <- xtabs(breaks ~ wool + tension, warpbreaks)
infert <- xtabs(~ education + spontaneous, infert)
table <- get(args[1])
cells <- as.data.frame(table, responseName = "n")
for (name in names(dimnames(table))) cells[[name]] <- factor(cells[[name]], levels = dimnames(table)[[name]])
cells <- cells[do.call(order, cells[names(dimnames(table))]), ]
fit <- glm(as.formula(paste("n ~", args[2])), family = args[3], data = cells,
           control = list(epsilon = 1e-15, maxit = 100))
number <- function(x) paste(sprintf("%.10g", x), collapse = " ")
say <- function(kind, name, x) cat(kind, name, number(x), sep = "\t", "\n")
for (name in names(dimnames(table))) {
  cat("levels", name, paste(dimnames(table)[[name]], collapse = " | "), sep = "\t", "\n")
}
say("counts", "", cells$n)
ends <- suppressMessages(confint(fit))
for (name in rownames(ends)) say("profile", name, ends[name, ])
own <- diag(vcov(fit))
design <- model.matrix(fit)
cut <- qchisq(0.95, 1) * summary(fit)$dispersion
for (name in names(own)) {
  beyond <- function(b) {
    held <- glm.fit(design[, colnames(design) != name, drop = FALSE], cells$n, offset = design[, name] * b,
                    family = poisson(), control = list(epsilon = 1e-13, maxit = 100))
    held$deviance - deviance(fit) - cut
  }
  end <- function(side) uniroot(beyond, sort(coef(fit)[name] + side * c(0, 4) * sqrt(own[name])), tol = 1e-10,
                                extendInt = if (side > 0) "upX" else "downX")$root
  say("exact", name, c(end(-1), end(1)))
}
for (name in names(own)) say("vcov", name, own[[name]])
told <- predict(fit, se.fit = TRUE)
say("fit", "", told$fit)
say("error", "", told$se.fit)
by <- strsplit(args[4], ",")[[1]]
found <- as.data.frame(summary(emmeans(fit, by), infer = TRUE))
ends <- found[, grep("LCL|UCL", names(found))]
for (i in seq_len(nrow(found))) {
  name <- paste(by, sapply(by, function(b) as.character(found[[b]][i])), collapse = ", ")
  say("means", name, exp(found$emmean[i])); say("se", name, found$SE[i]); say("ends", name, exp(unlist(ends[i, ])))
}
"""


def main() -> None:
    """Run R on each model and write what it says."""
    models: list[dict[str, Any]] = []
    for table, formula, family, by in MODELS:
        arguments = ["Rscript", "-e", PROGRAM, table, formula, family, by]
        done = subprocess.run(arguments, capture_output=True, text=True, check=True)
        found: dict[str, Any] = {"table": table, "formula": formula, "family": family, "by": by.split(",")}
        for line in done.stdout.splitlines():
            kind, name, text = line.strip("\t ").split("\t") if line.count("\t") >= 2 else (line, "", "")
            values = text.split(" | ") if kind == "levels" else [float(word) for word in text.split()]
            if name:
                found.setdefault(kind, {})[name] = values
            else:
                found[kind] = values
        models.append(found)
    TARGET.write_text(json.dumps({"about": ABOUT, "models": models}, indent=1) + "\n")


if __name__ == "__main__":
    main()
