"""The quick import of aiogram: it works with the installed versions, and the plain one is there if it does not."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.architecture.sources import ROOT

pytestmark = pytest.mark.xdist_group("aiogram")


def run(program: str) -> str:
    """What a program prints in a fresh interpreter."""
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_models_are_left_unbuilt_with_the_installed_versions() -> None:
    """If this fails, an upgrade of aiogram or pydantic took the quick import away: start-up is seconds slower."""
    program = """
from adapters.telegram import connection
from aiogram import types
unbuilt = sum(not getattr(types, name).__pydantic_complete__ for name in types.__all__
              if hasattr(getattr(types, name), "__pydantic_complete__"))
print(connection.BUILDS_DEFERRED, unbuilt > 300)
"""
    assert run(program).split() == ["True", "True"]


def test_unbuilt_models_build_themselves_at_their_first_use() -> None:
    """Models that we do not use ourselves work too: aiogram stays usable for whoever shares the process."""
    program = """
from adapters.telegram import connection
from aiogram.types import Update
user = {"id": 1, "is_bot": False, "first_name": "x"}
message = {"message_id": 1, "date": 1, "chat": {"id": 1, "type": "private"}, "from": user, "text": "hi"}
update = {"update_id": 1, "message": message}
print(Update.model_validate(update).message.text)
from aiogram.methods import Response
from aiogram.types import MessageEntity
print(Response[list[Update]].model_validate({"ok": True, "result": [update]}).result[0].message.chat.id)
print(MessageEntity.model_validate({"type": "text_mention", "offset": 0, "length": 1, "user": user}).user.id)
"""
    assert run(program).split() == ["hi", "1", "1"]


def test_models_of_others_are_built_meanwhile() -> None:
    """While aiogram is imported, another thread's models are rebuilt as ever, with the names of their own scope."""
    program = """
from pydantic import BaseModel
from adapters.telegram import model_builds
class Early(BaseModel):
    later: "Later"
def rebuild():
    class Later(BaseModel):
        x: int
    return Early.model_rebuild(), Early.model_validate({"later": {"x": 1}}).later.x
with model_builds.deferred_model_builds():
    import aiogram.methods
    print(*rebuild())
"""
    assert run(program).split() == ["True", "1"]


def test_plain_import_is_the_way_back() -> None:
    """If anything about the quick import raises, aiogram is imported as everybody does, and works."""
    program = """
import logging, sys
from adapters.telegram.model_builds import load_aiogram
tries = []
def prove():
    tries.append("aiogram" in sys.modules)
    if len(tries) == 1:
        raise TypeError("a new version changed something")
    from aiogram.methods import SendMessage
    SendMessage(chat_id=1, text="x", reply_markup={"inline_keyboard": [[{"text": "a", "callback_data": "b"}]]})
logging.disable()
print(load_aiogram(prove), tries)
from aiogram import types
print(types.Update.__pydantic_complete__)
"""
    assert run(program).splitlines() == ["False [True, True]", "True"]


def test_package_is_light_until_an_adapter_is_made() -> None:
    """Importing the package, for its name or its settings, does not load aiogram."""
    program = (
        "import sys, adapters.telegram, adapters.telegram.settings, adapters.registry; print('aiogram' in sys.modules)"
    )
    assert run(program).strip() == "False"
