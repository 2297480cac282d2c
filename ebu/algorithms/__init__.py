"""One file per method: sampler, rule, defaults, relative cost, title and agent class, beginning with what it changes from DQN.

Importing the package imports every file in it, and a file registers its method by defining an agent class. A rule imports
its target function when it is built, so that listing the methods does not wait for PyTorch.
"""

import importlib
import pkgutil

for _module in sorted(module.name for module in pkgutil.iter_modules(__path__)):
    importlib.import_module(f"{__name__}.{_module}")
