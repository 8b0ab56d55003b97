"""The command line; ``equipoise --help`` says what it can do."""

from equipoise.cli.app import main as main
