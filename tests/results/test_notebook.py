"""What a notebook shows: the tables of the summary, escaped and well-formed, with the certificate in words."""

from __future__ import annotations

from html.parser import HTMLParser
from typing import Any

import numpy as np
import pytest

import legendre as ld
from cases import rbm
from legendre.core.text import NamedValues, Table, fragment

VOID = {"meta", "link", "br", "input", "img"}


class Reader(HTMLParser):
    """Collects texts, and complains about tags that are not closed in order."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.texts: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:  # noqa: ARG002
        self.tags.append(tag)
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:  # noqa: ARG002
        self.tags.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def parsed(text: str) -> Reader:
    reader = Reader()
    reader.feed(text)
    reader.close()
    assert reader.open == []
    return reader


COUNTS = np.random.default_rng(3).poisson(5.0, (3, 4, 5)) + 1
GAPS = np.where(np.random.default_rng(4).random(COUNTS.shape) < 0.1, np.nan, COUNTS)


def results() -> dict[str, Any]:
    fit = ld.decompose(COUNTS, ld.interactions(2))
    return {
        "decomposition": fit,
        "effects": fit.effects(),
        "inference": fit.inference(),
        "anova": ld.anova(ld.decompose(COUNTS, "B1"), fit),
        "completion": ld.complete(GAPS, [ld.B1(), ld.interactions(2)], folds=2),
        "cross-validation": ld.complete(GAPS, [ld.B1(), ld.interactions(2)], folds=2).cv,
        "balanced": ld.balance(COUNTS),
        "smoothed": ld.complete(GAPS),
        "hidden": ld.hidden(np.full((2, 2, 2), 3.0) + np.eye(2), rbm(3, 1)),
        "sparse tensor": ld.from_rows([["a", "x"], ["b", "<y>"]]),
    }


@pytest.fixture(scope="module")
def shown() -> dict[str, Any]:
    return results()


@pytest.mark.parametrize("name", list(results()))
def test_every_result_is_a_table_in_a_notebook(shown: dict[str, Any], name: str) -> None:
    reader = parsed(shown[name]._repr_html_())
    assert "table" in reader.tags
    assert not {"script", "style"} & set(reader.tags)


@pytest.mark.parametrize("name", [name for name in results() if name != "sparse tensor"])
def test_the_notebook_shows_what_the_summary_says(shown: dict[str, Any], name: str) -> None:
    told = " ".join(" ".join(parsed(shown[name]._repr_html_()).texts).split())
    for line in shown[name].summary().splitlines():
        for word in line.split():
            assert word in told or set(word) == {"-"}, word


def test_what_has_not_converged_is_said() -> None:
    with pytest.warns(ld.ConvergenceWarning):
        fit = ld.decompose(COUNTS, ld.interactions(2), max_iter=1)
    certificate = fit.certificate()
    assert not certificate.good
    assert certificate.verdict == "This is not yet the minimum."
    assert "Raise max_iter" in certificate.text()
    with pytest.warns(ld.ConvergenceWarning):
        balanced = ld.balance(COUNTS, max_iter=1)
    assert balanced.certificate().verdict == "The margins are not met."


def test_labels_and_titles_are_escaped() -> None:
    nasty = "<script>alert('&')</script>"
    text = ld.decompose(COUNTS, "B1", names=[nasty, "b", "c"])._repr_html_()
    assert "<script" not in text
    assert nasty in "".join(parsed(text).texts)
    tables: list[Table] = [
        NamedValues(nasty, [(nasty, nasty)]),
        Table(nasty, [[nasty], [nasty]], "<", notes=[nasty]),
    ]
    text = fragment(tables, [nasty])
    assert "<script" not in text
    assert parsed(text).texts.count(nasty) == 8


def test_a_model_with_too_many_effects_is_shown_without(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("legendre.core.limits.LARGEST_EFFECTS", 3)
    fit = ld.decompose(COUNTS, ld.interactions(2))
    assert fit._effects_to_draw() == []


def test_limits_and_dependent_parameters_are_said() -> None:
    words = ld.decompose(np.array([[0, 1], [2, np.nan]]), ld.full()).certificate().text()
    assert words.startswith("This is the minimum, reached in a limit.")
    assert "1 cell has probability 0 in the limit." in words
    assert "Of the 2 parameters 1 are independent" in words
