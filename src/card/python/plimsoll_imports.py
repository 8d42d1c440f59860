"""Does something when a module has been imported."""
import importlib.abc
import importlib.util
import sys


class _Waiting(importlib.abc.MetaPathFinder):
    """Libraries ask for a module's spec to see whether it is installed, before anybody imports it: each spec that is handed out
    must lead to the action."""

    def __init__(self, name, action):
        self.name, self.action, self.is_looking = name, action, False

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

        def execute_and_act(module):
            execute(module)
            sys.meta_path.remove(self)
            self.action(module)

        spec.loader.exec_module = execute_and_act
        return spec


def when_imported(name, action):
    """Calls action(module) once."""
    sys.meta_path.insert(0, _Waiting(name, action))
