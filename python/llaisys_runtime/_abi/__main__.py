"""``python -m llaisys_runtime._abi``: the layout of every struct as one JSON object."""

import json

from . import layout

if __name__ == "__main__":
    print(json.dumps(layout(), indent=2))
