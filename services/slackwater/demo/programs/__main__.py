"""Runs the program of this name with its arguments, an object in JSON."""

from __future__ import annotations

import json
import sys
from importlib import import_module

if __name__ == "__main__":
    name, arguments = sys.argv[1:]
    sys.exit(import_module(f"slackwater.demo.programs.{name}").main(**json.loads(arguments)))
