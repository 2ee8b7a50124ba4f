"""The command line: ``legendre demo``, ``fit``, ``compare``, ``show`` and ``report``."""

from legendre.cli.app import main as main
