"""Calls a function with a module as soon as the program has imported it."""
import importlib.util
import os
import sys


class _Wait:
    """Libraries ask for a module's spec only to see whether it is installed, and the program imports the module later. So every
    spec that is returned must lead to the function."""

    def __init__(self, name, function):
        self.name, self.function, self.is_looking = name, function, False

    def find_spec(self, name, path=None, target=None):
        if name != self.name or self.is_looking:
            return None
        self.is_looking = True
        try:
            spec = importlib.util.find_spec(name)
        finally:
            self.is_looking = False
        execute = getattr(spec and spec.loader, "exec_module", None)
        if execute is None:
            return spec

        def execute_and_call(module):
            execute(module)
            if module.__name__ == self.name and self in sys.meta_path:  # a zip file has one loader for all its modules
                sys.meta_path.remove(self)
                _call(self.function, module)

        try:
            spec.loader.exec_module = execute_and_call
        except AttributeError:  # a loader of somebody's own, which cannot be changed
            pass
        return spec


def _call(function, module):
    """A training must not fail because it cannot be watched. A simulation must: it would show something else."""
    try:
        function(module)
    except Exception as error:
        if not os.environ.get("PLIMSOLL_LIVE"):
            raise
        if os.environ.get("RANK") in (None, "", "0") and sys.stderr:
            reason = "%s: %s" % (type(error).__name__, error)
            print("plimsoll: %s cannot be watched (%s); the program runs on, but its steps and memory may not be seen" % (module.__name__, reason), file=sys.stderr, flush=True)


def after(name, function):
    if name in sys.modules:
        _call(function, sys.modules[name])
    else:
        sys.meta_path.insert(0, _Wait(name, function))
