"""The command line: ``legendre demo``, ``fit``, ``compare``, ``show``, ``report`` and ``warm``."""

import sys

from legendre.core.arguments import check_installed
from legendre.core.errors import InvalidSetting


def main() -> None:
    """Run the command that the user typed; if packages that it needs are not installed, say how to install them."""
    try:
        check_installed("the command legendre", ("typer", "rich"), "'legendre[cli]'")
    except InvalidSetting as problem:
        print(f"legendre: {problem}", file=sys.stderr)
        sys.exit(2)
    from legendre.cli import app

    app.main()
