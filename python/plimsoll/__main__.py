"""`python -m plimsoll ...` is the program `plimsoll ...` that was installed with this package."""

import os
import sys
import sysconfig


def main() -> None:
    # Where pip puts programs with --target, without options, and with --user.
    beside = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "bin")
    for folder in (beside, sysconfig.get_path("scripts"), sysconfig.get_path("scripts", f"{os.name}_user")):
        program = os.path.join(folder, "plimsoll")
        if os.access(program, os.X_OK):
            os.execv(program, ["plimsoll", *sys.argv[1:]])
    sys.exit("error: the program plimsoll is not where pip puts programs\n"
             "help: install the package plimsoll-gpu again, with pip install --force-reinstall")


main()
