"""The command line: ``legendre demo``, ``fit``, ``compare``, ``show`` and ``report``."""

from __future__ import annotations

from legendre.cli.interrupt import ending_at_once


def main() -> None:
    """Run the command line. Ctrl-C while the libraries are still being imported ends it at once, without a word."""
    with ending_at_once():
        from legendre.cli import app
    app.main()
