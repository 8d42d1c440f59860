#!/usr/bin/env python3
"""python_options.py PROGRAM: prints python/plimsoll/_options.py, the options of the functions with their types, from what the
program says of its options."""

import json
import keyword
import subprocess
import sys

# What a member of a request can be, by the kind of the option.
TYPES = {
    "flag": "bool",
    "integer": "int",
    "number": "float",
    "choice": "str",
    "bytes": "Union[int, str]",
    "card": "Union[int, str]",
    "model": 'Union[str, "os.PathLike[str]", Mapping[str, Any]]',
    "string": "Union[str, int]",
    "strings": "Union[str, Sequence[str]]",
    "file": 'Union[str, "os.PathLike[str]"]',
}
# Options of the commands that a request does not have (app/library), and those that are parameters with a name of their own.
LEFT_OUT = {
    "estimate": {"svg", "html", "model", "as", "fetch"},
    "plan": {"out", "prove", "online", "unsandboxed", "fetch", "model"},
    "replay": {"svg", "html"},
}

def type_of(option):
    if option["kind"] == "choice":
        values = ", ".join(f'"{value}"' for value in option["choices"])
        return f"Literal[{values}]"
    return TYPES[option["kind"]]


def main():
    program = sys.argv[1]
    print('"""Options of the functions, written by tools/python_options.py. `plimsoll help estimate` says what they mean."""\n')
    print("from __future__ import annotations\n\nimport os")
    print("from typing import Any, Literal, Mapping, Sequence, TypedDict, Union")
    for command in LEFT_OUT:
        answer = subprocess.run([program, "help", command, "--json"], check=True, capture_output=True, text=True)
        row = next(c for c in json.loads(answer.stdout)["commands"] if c["name"] == command)
        print(f"\n\nclass {command.title()}Options(TypedDict, total=False):")
        for option in row["options"]:
            if option["name"] not in LEFT_OUT[command]:
                name = option["name"].replace("-", "_")
                print(f"    {name + '_' * keyword.iskeyword(name)}: {type_of(option)}")


main()
