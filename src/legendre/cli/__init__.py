"""The command line: ``legendre demo``, ``legendre fit``, ``legendre compare``, ``legendre show``."""

from legendre.cli.app import main as main
