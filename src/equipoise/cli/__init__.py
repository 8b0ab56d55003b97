"""The command line; ``equipoise --help`` says what it can do."""

from equipoise.cli.commands import main as main
