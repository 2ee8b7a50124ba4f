"""The command line: ``legendre demo``, ``legendre fit``, ``legendre show``."""

from legendre.cli.app import main as main
