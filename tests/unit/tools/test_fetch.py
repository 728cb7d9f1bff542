"""Reading a page as a tool: what is asked about, and what the model is told."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from runtime.errors import ToolError
from runtime.protocol.context import ToolCall
from runtime.tools.base import ToolContext, ToolOutput, Workspace
from runtime.tools.fetch import FetchUrl, fetch_tool
from runtime.tools.web.client import WebClient
from tests.support.pages import Pages, answer, redirect, served

CONTEXT = ToolContext(session_id="s1", turn_id="t1", call_id="c1", principal="telegram:42")


async def here(host: str, port: int) -> Sequence[str]:
    """Every name leads to this machine."""
    return ["127.0.0.1"]


def tool_for(pages: Pages) -> FetchUrl:
    """The tool, for which this machine is the internet."""
    return fetch_tool(WebClient(resolve=here, ports=(pages.port,), permitted=bool))


async def told(answers: dict[str, Any], path: str = "/", **arguments: Any) -> ToolOutput:
    """What the model is told of a page; the port of the server is written `PORT`."""
    async with served(Pages(answers=answers)) as pages:
        tool = tool_for(pages)
        call = ToolCall(
            call_id="c1", name="fetch_url", arguments={"url": f"http://page.test:{pages.port}{path}", **arguments}
        )
        output = await tool.run(tool.validate(call), CONTEXT)
        return ToolOutput(text=output.text.replace(str(pages.port), "PORT"), is_error=output.is_error)


def test_it_is_marked_as_what_it_is() -> None:
    """It asks by policy, is never allowed for a session, and is not done again after a crash: consent is for once."""
    tool = fetch_tool()
    assert (tool.name, tool.approval, tool.replay, tool.high_risk) == ("fetch_url", "policy", "unsafe", True)


async def test_a_page_is_told_as_text() -> None:
    """Address, title and text, with links completed; `raw` tells the source."""
    html = b"<title>T</title><h1>H</h1><p>a <a href=/b>b</a>"
    answers = {"/": answer(html, content_type="text/html; charset=utf-8")}
    expected = "http://page.test:PORT/\n\n# T\n\n# H\n\na b <http://page.test:PORT/b>"
    assert await told(answers) == ToolOutput(text=expected)
    assert await told(answers, raw=True) == ToolOutput(text=f"http://page.test:PORT/\n\n{html.decode()}")


async def test_other_text_is_told_as_it_is() -> None:
    """Plain text, JSON and their relatives are not changed."""
    for kind in ("text/plain", "text/csv", "application/json", "application/problem+json", "image/svg+xml"):
        assert (await told({"/": answer(b"<a>  b", content_type=kind)})).text == "http://page.test:PORT/\n\n<a>  b"


async def test_what_is_no_text_is_named() -> None:
    """Of anything else its kind and size are told, never its bytes."""
    assert (await told({"/": answer(b"\x89PNG", content_type="image/png")})).text.endswith(
        "[image/png, 4 bytes: no text]"
    )
    assert (await told({"/": answer(b"?")})).text.endswith("[application/octet-stream, 1 bytes: no text]")


async def test_where_it_came_from_is_told() -> None:
    """After redirects the address is that of the page, not the one that was asked for."""
    answers = {"/": redirect("/there"), "/there": answer(b"x", content_type="text/plain")}
    assert (await told(answers)).text == "http://page.test:PORT/there\n\nx"


async def test_an_error_of_the_server_is_one() -> None:
    """The status and the text of the error page are told, as a failure."""
    output = await told({"/": answer(b"gone", status="410 Gone", content_type="text/plain")})
    assert output == ToolOutput(text="http://page.test:PORT/\nHTTP status 410\n\ngone", is_error=True)
    assert (await told({})).is_error


async def test_a_cut_page_says_so() -> None:
    """A page beyond the limit is told as far as it was read, and that there is more."""
    output = await told({"/": answer(b"x" * 5_000_000, content_type="text/plain")})
    assert "[only the first 4194304 bytes were read]" in output.text
    assert len(output.text) < 210_000


async def test_an_empty_page_says_so() -> None:
    """No text is said in words."""
    assert (await told({"/": answer(b"<p>", content_type="text/html")})).text.endswith("[the page has no text]")


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"url": ""},
        {"url": "page.test"},
        {"url": 7},
        {"url": "http://127.0.0.1/"},
        {"url": "http://page.test:22/"},
        {"url": "http://page.test/ x"},
        {"url": "http://page.test/\u202e"},
        {"url": "http://page.test/" + "x" * 2000},
        {"url": "http://page.test/", "method": "POST"},
        {"url": "http://page.test/", "headers": {}},
        {"url": "http://page.test/", "raw": "yes"},
    ],
)
def test_unfit_arguments_are_refused(arguments: dict[str, Any]) -> None:
    """What can never be read is refused before anybody is asked; there is no method, header or body to give."""
    with pytest.raises(ToolError):
        fetch_tool().validate(ToolCall(call_id="c1", name="fetch_url", arguments=arguments))


def test_what_is_asked_about(tmp_path: Any) -> None:
    """The whole URL, and that it goes to the public internet, whatever the workspace's programs may reach."""
    workspace = Workspace(id="w1", label="work", path=tmp_path, network="none")
    context = ToolContext(session_id="s1", turn_id="t1", call_id="c1", workspace=workspace)
    tool = fetch_tool()
    call = ToolCall(call_id="c1", name="fetch_url", arguments={"url": "https://page.test/a?token=b"})
    action = tool.action(tool.validate(call), context)
    assert (action.arguments, action.network) == (
        {"url": "https://page.test/a?token=b", "raw": False},
        "public internet",
    )


@pytest.mark.parametrize(
    ("url", "line"),
    [
        ("https://page.test/secret?token=x#y", "page.test"),
        ("https://bücher.test/", "bücher.test"),
        ("http://user:word@page.test/", ""),
        ("nonsense", ""),
        (7, ""),
    ],
)
def test_the_line_for_shared_places_names_the_host_only(url: object, line: str) -> None:
    """A path or a query can hold a secret; they are not for everybody."""
    assert fetch_tool().summary({"url": url}) == line
