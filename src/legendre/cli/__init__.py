"""The command line: ``legendre demo``, ``fit``, ``compare``, ``show`` and ``report``."""

from __future__ import annotations


def main() -> None:
    """Run the command line."""
    from legendre.cli import app

    app.main()
