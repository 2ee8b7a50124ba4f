"""From what a page tells to one HTML file: text as HTML, everything that is drawn as one block of JSON."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from html import escape
from importlib.resources import files
from typing import Any

from legendre.core.errors import LegendreError
from legendre.core.files import check_writable, replacing
from legendre.core.text_table import Columns, NamedValues, Table
from legendre.results.base import Certificate
from legendre.results.page.names import parameter_texts
from legendre.results.page.pictures import (
    effects_data,
    history_data,
    parameters_data,
    path_data,
    residuals_data,
)
from legendre.results.page.slices import slices
from legendre.results.page.subject import Subject

LARGEST_PAGE = 2_900_000  # bytes
SLICE_CELLS = 230_000  # cells of X, and of Q, that slices are cut from: about 1.2 MB
MOST_PARAMETERS = 4_000  # rows of the table of parameters
MOST_RESIDUALS = 50  # rows of the table of residuals
# rows of a summary that were asked for
ASKED = ("tensor", "visible", "modes", "hidden", "support", "basis", "why this basis", "margins", "solver")
SCRIPTS = ("helpers", "colours", "maps", "charts", "tables", "viewer", "sections")  # in this order, one script
UNSAFE = {ord("<"): "\\u003c", ord(">"): "\\u003e", ord("&"): "\\u0026"}  # JSON in a script must not end it


@dataclass(frozen=True)
class Section:
    """A part of the page: its anchor, heading and HTML."""

    anchor: str
    heading: str
    body: str
    link: str = ""  # what the menu calls it, where that is not its heading


def write_page(path: str | os.PathLike[str], subject: Subject) -> None:
    """Write the page of a result, whole or not at all."""
    check_writable(path, "report.html")
    text = page(subject)
    with replacing(path) as stream:
        stream.write(text.encode("utf-8"))


def page(subject: Subject) -> str:
    """Write the page; where it would be too large, with fewer slices and parameters."""
    share = 1
    while len(text := _page(subject, share).encode("utf-8")) > LARGEST_PAGE and share < 64:
        share *= 2
    return text.decode("utf-8")


def _page(subject: Subject, share: int) -> str:
    data, notes = page_data(subject, share)
    sections = _sections(subject, data, notes)
    script = "\n".join(['"use strict";', "{", *(_part(f"script/{name}.js") for name in SCRIPTS), "}"])
    digest = base64.b64encode(hashlib.sha256(script.encode("utf-8")).digest()).decode("ascii")
    links = "".join(
        f'<a href="#{section.anchor}">{escape(section.link or section.heading)}</a>' for section in sections
    )
    body = "".join(
        f'<section id="{section.anchor}" aria-labelledby="{section.anchor}-heading">'
        f'<h2 id="{section.anchor}-heading">{escape(section.heading)}</h2>{section.body}</section>'
        for section in sections
    )
    return _filled(
        _part("page.html"),
        {
            "title": escape(f"{subject.title}: {subject.line}"),
            "heading": escape(subject.title),
            "line": escape(subject.line),
            "links": links,
            "sections": body,
            "style": _part("page.css"),
            "script": script,
            "digest": digest,
            "data": as_json(data),
        },
    )


def page_data(subject: Subject, share: int = 1) -> tuple[dict[str, Any], dict[str, str]]:
    """Gather what is drawn, and by section why something cannot be; `share` makes both slices and tables smaller."""
    data: dict[str, Any] = {"history": history_data(subject.history, subject.tol)}
    notes: dict[str, str] = {}
    if subject.effects:
        data["effects"] = effects_data(subject.effects, subject.effect_labels, subject.scarce)
    if subject.path:
        data["path"] = path_data(subject.path)
    if subject.basis is not None:
        data["parameters"] = parameters_data(
            parameter_texts(subject.basis, subject.titles, subject.effect_labels),
            subject.theta,
            subject.eta,
            MOST_PARAMETERS // share,
        )
    if subject.pair is None:
        return data, {"slices": subject.without}
    try:
        data["slices"] = slices(subject.pair, subject.labels, subject.effects, SLICE_CELLS // share)
    except (LegendreError, MemoryError) as problem:
        notes["slices"] = f"Slices are not shown: {problem}"
    try:
        worst = subject.pair.worst(MOST_RESIDUALS)
        if len(worst.cells):
            data["residuals"] = residuals_data(worst, subject.labels)
        else:
            notes["residuals"] = "X and Q agree in every cell, up to rounding."
    except (LegendreError, MemoryError) as problem:
        notes["residuals"] = f"Residuals are not listed: {problem}"
    return data, notes


def as_json(data: dict[str, Any]) -> str:
    """Write data so that no text in it can end the script that holds it.

    >>> "<" in as_json({"name": "</script>"})
    False
    """
    return json.dumps(data, allow_nan=False, separators=(",", ":")).translate(UNSAFE)


def _sections(subject: Subject, data: dict[str, Any], notes: dict[str, str]) -> list[Section]:
    found = [
        Section("asked", "What was asked, what came out", _tables(subject.tables), "Summary"),
        Section("certificate", "Certificate", _certificate(subject.certificate)),
    ]
    for part in DRAWN:
        if part.anchor in data:
            said = "".join(map(_note, data[part.anchor].get("notes", ())))
            found.append(replace(part, body=part.body + said))
        elif part.anchor in notes:
            found.append(replace(part, body=_note(notes[part.anchor])))
    repeat = f'<pre tabindex="0"><code>{escape(subject.call)}</code></pre>'
    return [*found, Section("repeat", "How to repeat it", repeat, "Repeat")]


EFFECTS = """<p>log Q is a sum of what each mode does, each pair of modes, and so on. A line shows the factor by which a
level multiplies the probability, on a logarithmic scale; a map the factor of a pair of levels beyond those of its two
modes. The percentages are shares of the variance of log Q, every level counted the same. Where cells vanish, levels and
pairs with hardly any data have no factor, and are left out.</p>
<div id="shares" class="shares"></div><div id="effect-lines" class="cards"></div>
<div id="effect-maps" class="cards"></div>"""
SLICES = """<p>X, the fit Q and what is left. Move the slider, or click a picture and use the arrow keys to read single
cells.</p><div id="viewer"></div>"""
RESIDUALS = """<p>The cells in which X and Q differ most: those with the largest terms of the deviance, of which the
last column is the signed root. For counts it is about as large as a standard normal variable where the model
holds.</p><div id="residual-table"></div>"""
PATH = """<p>The basis was grown, a few cells at a time. Each point is a stage; the chosen size is marked.</p>
<div id="path-charts" class="cards"></div>"""
PARAMETERS = """<p>Each parameter multiplies the probability of every cell that meets its condition by its factor,
exp(theta). eta is the probability that Q gives to these cells together.</p><div id="parameter-table"></div>"""
DRAWN = (
    Section("effects", "Effects", EFFECTS),
    Section("slices", "Slices", SLICES),
    Section("residuals", "Worst residuals", RESIDUALS, "Residuals"),
    Section("path", "Path", PATH),
    Section("parameters", "Parameters", PARAMETERS),
)
"""Sections whose data are drawn, or that say why they are not."""


def _tables(tables: Sequence[Table]) -> str:
    """Write the tables of a summary, first what was asked for and then what came out."""

    def pairs(table: NamedValues) -> str:
        asked = [row for row in table.rows if row[0] in ASKED]
        came = [row for row in table.rows if row[0] not in ASKED]
        head = f"<h3>{escape(table.title)}</h3>" if len(tables) > 1 else ""
        return f'{head}<div class="pairs">{_named(asked)}{_named(came)}</div>'

    return "".join(table.written(pairs, _columns) for table in tables)


def _named(rows: Sequence[tuple[str, str]]) -> str:
    listed = "".join(f"<dt>{escape(name)}</dt><dd>{escape(value)}</dd>" for name, value in rows)
    return f"<dl>{listed}</dl>" if rows else ""


def _columns(table: Columns) -> str:
    head, *body = table.rows
    names = "".join(f'<th scope="col">{escape(name)}</th>' for name in head)
    rows = "".join(f"<tr>{''.join(f'<td>{escape(text)}</td>' for text in row)}</tr>" for row in body)
    return (
        f"<h3>{escape(table.title)}</h3>{_note(table.lead)}"
        f'<div class="wide" tabindex="0"><table><thead><tr>{names}</tr></thead><tbody>{rows}</tbody></table></div>'
    )


def _certificate(certificate: Certificate) -> str:
    mark, kind = ("✓", "good") if certificate.good else ("!", "bad")
    # a minus sign, unlike a hyphen, does not let a number break at the end of a line
    words = "".join(f"<p>{escape(re.sub(r'(?<=[0-9]e)-', '−', word))}</p>" for word in certificate.words)
    return (
        f'<div class="proof"><div class="verdict {kind}"><span class="mark" aria-hidden="true">{mark}</span><div>'
        f"<p><strong>{escape(certificate.verdict)}</strong></p>{words}</div></div>"
        '<div id="history"></div></div>'
    )


def _note(text: str) -> str:
    return f'<p class="note">{escape(text)}</p>' if text else ""


def _part(name: str) -> str:
    return files("legendre.results.page").joinpath(name).read_text(encoding="utf-8")


def _filled(template: str, values: dict[str, str]) -> str:
    """Put values in the places of a template in one pass, so that no value is searched for places."""
    return re.sub(r"\{\{(\w+)\}\}", lambda place: values[place[1]], template)
