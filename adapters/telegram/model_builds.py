"""Importing aiogram without building all of its models.

`aiogram.types` builds its 400 pydantic models at import, which takes seconds and a hundred megabytes; we need a dozen.
While it is imported here, a build only notes where the model's names are found, and pydantic builds a model at its
first use by itself. If anything about that fails, aiogram is imported as everybody does.
"""

from __future__ import annotations

import importlib
import logging
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

from pydantic import BaseModel

log = logging.getLogger("pilothouse.telegram")


def load_aiogram(prove: Callable[[], None]) -> bool:
    """Import `aiogram.methods`; True if its models were left to be built at first use.

    `prove` uses what will be needed, and raises if it cannot. Call it before anything else imports aiogram: a module
    that is there already is not touched.
    """
    if "aiogram" in sys.modules:
        return False
    try:
        with deferred_model_builds():
            importlib.import_module("aiogram.methods")
        prove()
    except Exception:  # whatever a new version changed, the plain import still works, and says so itself if not
        log.warning("aiogram's models could not be left unbuilt; the plain import takes seconds longer", exc_info=True)
        for name in [name for name in sys.modules if name.partition(".")[0] == "aiogram"]:
            del sys.modules[name]
        importlib.import_module("aiogram.methods")
        prove()
        return False
    return True


@contextmanager
def deferred_model_builds() -> Generator[None]:
    """Within it, models of aiogram are declared and not built; those of everybody else are."""
    original = BaseModel.__dict__["model_rebuild"]
    names: dict[str, Any] = {}

    def noted(cls: type[BaseModel], **given: Any) -> bool | None:
        if not _is_of_aiogram(cls):
            # One frame more stands between the caller, whose names are looked at, and the original.
            depth = given.pop("_parent_namespace_depth", 2) + 1
            return original.__get__(None, cls)(**given, _parent_namespace_depth=depth)
        names.update(given.get("_types_namespace") or {})
        return None

    # A class attribute of pydantic for the moment: other threads go on through it to the original.
    BaseModel.model_rebuild = classmethod(noted)  # type: ignore[method-assign, assignment]
    try:
        yield
    finally:
        BaseModel.model_rebuild = original
    # Its modules import each other's types for type checkers only: here they are found at the first use of a model,
    # also of one inside an answer of a kind that is made up at run time (`Response[list[Update]]`).
    for module in [module for name, module in sys.modules.copy().items() if name.startswith("aiogram.types.")]:
        for name, value in names.items():
            vars(module).setdefault(name, value)


def _is_of_aiogram(cls: type) -> bool:
    return cls.__module__.startswith("aiogram.")
