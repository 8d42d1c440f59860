"""Calls a function with a module as soon as the program has imported it."""
import importlib.abc
import importlib.util
import sys


class _Wait(importlib.abc.MetaPathFinder):
    """Libraries ask for a module's spec only to see whether it is installed, and the program imports the module later. So every
    spec that is returned must lead to the function."""

    def __init__(self, name, function):
        self.name, self.function, self.is_looking = name, function, False

    def find_spec(self, name, path, target=None):
        if name != self.name or self.is_looking:
            return None
        self.is_looking = True
        try:
            spec = importlib.util.find_spec(name)
        finally:
            self.is_looking = False
        if spec is None or spec.loader is None:
            return spec
        execute = spec.loader.exec_module

        def execute_and_call(module):
            execute(module)
            if self in sys.meta_path:
                sys.meta_path.remove(self)
                self.function(module)

        spec.loader.exec_module = execute_and_call
        return spec


def after(name, function):
    if name in sys.modules:
        function(sys.modules[name])
    else:
        sys.meta_path.insert(0, _Wait(name, function))
