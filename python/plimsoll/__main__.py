"""`python -m plimsoll ...` is the program `plimsoll ...` that was installed with this package."""

import os
import sys
import sysconfig


def main() -> None:
    schemes = ["", f"{os.name}_user"]  # where pip puts programs, and where with --user
    for scheme in schemes:
        folder = sysconfig.get_path("scripts", scheme) if scheme else sysconfig.get_path("scripts")
        program = os.path.join(folder, "plimsoll")
        if os.access(program, os.X_OK):
            os.execv(program, ["plimsoll", *sys.argv[1:]])
    sys.exit("error: the program plimsoll is not where pip puts programs\nhelp: pip install --force-reinstall plimsoll")


main()
