"""Every adapter keeps the contract."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager

import pytest

from adapters.testing import CONTRACT, Check, World
from tests.contract.adapter_worlds import discord_world, slack_world, telegram_world, terminal_world

WORLDS = [
    pytest.param(telegram_world, id="telegram", marks=pytest.mark.xdist_group("aiogram")),
    pytest.param(slack_world, id="slack", marks=pytest.mark.xdist_group("bolt")),
    pytest.param(discord_world, id="discord", marks=pytest.mark.xdist_group("discord")),
    pytest.param(terminal_world, id="terminal"),
]


@pytest.mark.parametrize("check", CONTRACT, ids=lambda check: check.__name__)
@pytest.mark.parametrize("world", WORLDS)
async def test_adapter_keeps_the_contract(
    world: Callable[[], AbstractAsyncContextManager[World]], check: Check
) -> None:
    """Each clause of the contract holds for each adapter; the clause's own docstring says what it is."""
    async with world() as one:
        await check(one)
