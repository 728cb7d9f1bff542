"""The playground in a real browser: three chats, one gateway, killed between the request and the press."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.support.chromium import Browser, browser, chromium
from tests.support.world import ROOT

PLATFORMS = ("telegram", "slack", "discord")
PATIENCE = 120.0
TRAP = "<img src='/trap.png' onerror=\"document.title = 'owned'\"><script>document.title = 'owned'</script>"


@asynccontextmanager
async def playground(folder: Path) -> AsyncGenerator[tuple[asyncio.subprocess.Process, str]]:
    """`pilothouse try --web` and the address that it prints. Whatever happens, it does not outlive the test."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "gateway", "try", "--web", "--state", str(folder), "--patience", "60",
        cwd=ROOT, env={**os.environ, "USER": "Ann"}, stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    assert process.stdout is not None
    try:
        async with asyncio.timeout(PATIENCE):
            async for line in process.stdout:
                if b"/enter?token=" in line:
                    break
        yield process, line.decode().strip()
    finally:
        if process.returncode is None:
            process.send_signal(signal.SIGINT)
        await process.wait()


def shows(platform: str, words: str) -> str:
    """The condition that a pane has a message with these words."""
    return f"document.querySelector('[data-platform={platform}] .messages').innerText.includes({words!r})"


def button(platform: str, label: str) -> str:
    """A button of a pane, as an expression."""
    return f"[...document.querySelectorAll('[data-platform={platform}] button')].find((b) => b.innerText === {label!r})"


async def say(page: Browser, platform: str, words: str) -> None:
    """By keyboard alone: go to the pane, write, press Enter."""
    await page.key(str(PLATFORMS.index(platform) + 1), alt=True)
    await page.until(f"document.activeElement.id === 'words-{platform}'")
    await page.type(words)
    await page.until("document.activeElement.value === ''")


async def press(page: Browser, platform: str, label: str) -> None:
    """By keyboard: give the button the focus and press Enter."""
    await page.until(button(platform, label))
    await page.run(f"{button(platform, label)}.focus()")
    await page.key("Enter")


async def running(page: Browser) -> int:
    """Wait until all three platforms are listened to; the gateway's process id."""
    await page.until("document.querySelectorAll('.pane.connected').length === 3")
    number = "(document.getElementById('gateway').innerText.match(/process (\\d+)/) || [])[1]"
    return int(await page.until(number))


async def kill_and_restart(page: Browser) -> int:
    """Both from the page's panel."""
    await page.run("document.getElementById('kill').click()")
    await page.until("document.getElementById('gateway').dataset.phase === 'down'")
    await page.until("document.querySelectorAll('.pane.connected').length === 0")
    await page.run("document.getElementById('start').click()")
    return await running(page)


@pytest.mark.e2e
@pytest.mark.timeout(480)
async def test_three_chats_survive_the_kill_of_their_gateway(tmp_path: Path) -> None:
    """Asked before the kill and decided after it, by keyboard: each answered once, and what agents say is only text."""
    chromium()
    workspace = tmp_path / "trial" / "workspace"
    async with playground(tmp_path / "trial") as (process, address), browser(tmp_path / "profile") as page:
        await page.open(address)
        first = await running(page)
        for platform in PLATFORMS:
            await say(page, platform, f"note in {platform}.txt that the release is on Friday")
        for platform in PLATFORMS:
            await page.until(button(platform, "Approve"))
        assert await kill_and_restart(page) != first

        await press(page, "telegram", "Approve")
        await press(page, "slack", "Approve")
        await press(page, "discord", "Deny")
        await page.until("document.querySelector('[data-platform=discord] .form [name=reason]')")
        await page.run("document.querySelector('[data-platform=discord] .form [name=reason]').focus()")
        await page.call("Input.insertText", text="not on a Friday")
        await press(page, "discord", "Send")
        for platform in ("telegram", "slack"):
            await page.until(shows(platform, f"Noted in {platform}.txt"))
        await page.until(shows("discord", "denied by the user: not on a Friday"))

        await faults_and_hostile_words(page, workspace)
        for platform, words in zip(PLATFORMS, ("Noted in", "Noted in", "was denied, so"), strict=True):
            text = await page.run(f"document.querySelector('[data-platform={platform}] .messages').innerText")
            assert text.count(words) == 1, f"{platform} was not answered exactly once"
        assert [p for p in PLATFORMS if (workspace / f"{p}.txt").exists()] == ["telegram", "slack"]
        assert page.problems == []
        assert all(one.startswith(("http://127.0.0.1:", "about:")) for one in page.requests), "it asked another host"
        last = await running(page)
        process.send_signal(signal.SIGINT)
        assert await asyncio.wait_for(process.wait(), PATIENCE) == 0
    with pytest.raises(ProcessLookupError):
        os.kill(last, 0)


async def faults_and_hostile_words(page: Browser, workspace: Path) -> None:
    """A prepared 429 and cut connections delay and lose nothing; markup in what agents say does nothing."""
    (workspace / "trap.txt").write_text(TRAP)
    await page.run("document.getElementById('refuse').click()")
    await page.until("document.querySelector('[data-platform=slack] .armed').innerText.includes('rate_limit')")
    for platform in PLATFORMS:
        await say(page, platform, "read trap.txt")
    await page.run("document.getElementById('disconnect').click()")
    for platform in PLATFORMS:
        await page.until(shows(platform, "onerror"))
    assert await page.run("document.querySelector('.messages img, .messages script, .messages a')") is None
    assert await page.run("document.title") == "pilothouse: try it"
    assert not any("trap.png" in one for one in page.requests)
    await say(page, "telegram", "a wrod")
    act = (
        "[...document.querySelectorAll('[data-platform=telegram] .mine button')].filter((b) => b.title === '{}').at(-1)"
    )
    await page.run(f"{act.format('Edit this message')}.click()")
    await page.run("document.getElementById('words-telegram').value = ''")
    await page.type("a word")
    await page.until(shows("telegram", "edited"))
