"""S-48: asking the web for a page is no way into this machine, its network, or the cloud beneath it."""

from __future__ import annotations

import asyncio
import gzip
import ssl
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from runtime.errors import ToolError
from runtime.tools.web.addresses import is_public
from runtime.tools.web.client import WebClient, WebLimits
from tests.support.pages import CERTIFICATE, Pages, answer, redirect, served

PUBLIC, PUBLIC_V6 = "93.184.216.34", "2606:2800:220:1:248:1893:25c8:1946"

NAMES: dict[str, list[str]] = {
    "loopback.test": ["127.0.0.1"],
    "loopback6.test": ["::1"],
    "mixed.test": [PUBLIC, "127.0.0.1"],
    "mixed6.test": [PUBLIC_V6, "::1"],
    "private.test": ["10.0.0.1"],
    "metadata.test": ["169.254.169.254"],
    "mapped.test": ["::ffff:127.0.0.1"],
    "zero.test": ["0.0.0.0"],
    "nat64.test": ["64:ff9b::7f00:1"],
    "odd.test": ["127.1"],
    "localhost": ["127.0.0.1"],
    "metadata.google.internal": ["169.254.169.254"],
}

ROWS = """
    http://127.0.0.1:{port}/              an address of this machine
    http://127.0.0.2:{port}/              another one
    http://127.1:{port}/                  the same, shortened
    http://0177.0.0.1:{port}/             in octal
    http://0x7f.0.0.1:{port}/             in hexadecimal
    http://0x7f000001:{port}/             as one number
    http://2130706433:{port}/             as one decimal number
    http://017700000001:{port}/           as one octal number
    http://127.0.0.1.:{port}/             with a dot behind it
    http://%31%32%37.0.0.1:{port}/        with escapes
    http://①②⑦.0.0.1:{port}/             with letters that become digits
    http://127。0。0。1:{port}/            with dots of another script
    http://0.0.0.0:{port}/                this host
    http://0:{port}/                      this host, shortened
    http://[::1]:{port}/                  loopback in IPv6
    http://[::]:{port}/                   this host in IPv6
    http://[::ffff:127.0.0.1]:{port}/     mapped
    http://[::ffff:7f00:1]:{port}/        mapped, as numbers
    http://[0:0:0:0:0:ffff:7f00:1]:{port}/ mapped, written out
    http://[::127.0.0.1]:{port}/          compatible
    http://[64:ff9b::7f00:1]:{port}/      through NAT64
    http://[64:ff9b:1::7f00:1]:{port}/    through a local NAT64
    http://[2002:7f00:1::]:{port}/        through 6to4
    http://[2001:0:7f00:1::1]:{port}/     through Teredo
    http://[2606:2800::5efe:7f00:1]:{port}/ through ISATAP
    http://[fe80::1%25lo]:{port}/         of a link
    http://[fe80::1]:{port}/              of a link
    http://[fec0::1]:{port}/              of a site
    http://[fd00:ec2::254]:{port}/        metadata of a cloud in IPv6
    http://[ff02::1]:{port}/              multicast in IPv6
    http://10.0.0.1:{port}/               private
    http://172.16.0.1:{port}/             private
    http://192.168.0.1:{port}/            private
    http://100.64.0.1:{port}/             of a carrier
    http://169.254.169.254:{port}/        metadata of a cloud
    http://168.63.129.16:{port}/          the platform beneath a cloud
    http://192.0.0.192:{port}/            metadata of another cloud
    http://198.18.0.1:{port}/             for measuring
    http://192.88.99.1:{port}/            a relay
    http://224.0.0.1:{port}/              multicast
    http://255.255.255.255:{port}/        broadcast
    http://localhost:{port}/              a name of this machine
    http://loopback.test:{port}/          a name that leads here
    http://loopback.test.:{port}/         the same, complete
    http://LOOPBACK.test:{port}/          the same in capitals
    http://loopback6.test:{port}/         in IPv6
    http://mixed.test:{port}/             one good address, one bad
    http://mixed6.test:{port}/            the same in IPv6
    http://private.test:{port}/           a name of a private network
    http://metadata.test:{port}/          a name of metadata
    http://metadata.google.internal:{port}/ a real one
    http://mapped.test:{port}/            a mapped address behind a name
    http://zero.test:{port}/              this host behind a name
    http://nat64.test:{port}/             NAT64 behind a name
    http://odd.test:{port}/               a resolver's answer that is no address
    http://user@127.0.0.1:{port}/         a user before it
    http://page.test@127.0.0.1:{port}/    a host that is a user
    http://page.test:80@127.0.0.1:{port}/ a host and port that are a user
    http://127.0.0.1:{port}\\@page.test/   a backslash
    http://127.0.0.1:{port}#@page.test/   a fragment
    http://page.test%00.127.0.0.1:{port}/ a NUL
    http://page.test%2f@127.0.0.1:{port}/ an escaped slash
    http://127.0.0.1%0d%0a:{port}/        a line end
    https://127.0.0.1:{port}/             with TLS
    HTTP://127.0.0.1:{port}/              in capitals
    //127.0.0.1:{port}/                   without a scheme
    ftp://127.0.0.1:{port}/               another scheme
    file:///etc/passwd                    a file
    gopher://127.0.0.1:{port}/_x          a scheme for smuggling
    dict://127.0.0.1:{port}/              another one
    data:text/plain,x                     no host at all
    http:///x                             an empty host
    http://:{port}/                       a port only
    http://-x.test:{port}/                a name that is none
    http://a..test:{port}/                an empty label
"""


def rows() -> list[tuple[str, str]]:
    """(URL, what it tries)."""
    split = (line.split(None, 1) for line in ROWS.strip().splitlines())
    return [(url, why.strip()) for url, why in split]


async def resolved(host: str, port: int) -> Sequence[str]:
    """The fake name service."""
    try:
        return NAMES[host.lower().rstrip(".")]
    except KeyError:
        raise OSError(f"no host {host}") from None


@pytest.mark.parametrize(("url", "why"), rows(), ids=lambda value: value.replace(" ", "_"))
async def test_no_way_in(url: str, why: str) -> None:
    """Every spelling of an address that is not public, or of something else than a URL, ends without a connection."""
    async with served(Pages(answers={"/": answer(b"secret", content_type="text/plain")})) as pages:
        client = WebClient(resolve=resolved, ports=(80, 443, pages.port))
        with pytest.raises(ToolError) as refused:
            await client.get(url.format(port=pages.port))
        assert pages.connections == 0, why
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("port", [0, 1, 22, 25, 81, 444, 6379, 8080, 8443, 65535, 65536])
def test_other_ports_are_refused(port: int) -> None:
    """Only the web's own two ports are spoken to."""
    with pytest.raises(ToolError):
        WebClient().checked(f"http://page.test:{port}/")


def test_the_webs_ports_are_taken() -> None:
    """With and without their numbers."""
    for url in (
        "http://page.test",
        "https://page.test/a?b#c",
        "http://page.test:80/",
        "https://page.test:443/",
        "http://page.test:443/",
    ):
        assert WebClient().checked(url).host == "page.test"


@pytest.mark.parametrize("address", [PUBLIC, PUBLIC_V6, "1.1.1.1", "8.8.8.8", "2001:4860:4860::8888", "::ffff:8.8.8.8"])
def test_public_addresses_are_public(address: str) -> None:
    """The guard lets the internet through, also mapped and translated addresses of it."""
    assert is_public(address)
    assert is_public("64:ff9b::808:808")
    assert is_public("2002:808:808::1")


def local_client(pages: Pages, **options: object) -> WebClient:
    """A client for which this machine's 127.0.0.1 is the internet, and 127.0.0.2 is not."""

    async def here(host: str, port: int) -> Sequence[str]:
        return ["127.0.0.1"]

    settings: dict[str, object] = {"resolve": here, "permitted": lambda address: address == "127.0.0.1", **options}
    return WebClient(ports=(pages.port,), **settings)  # type: ignore[arg-type]


async def test_a_page_is_read() -> None:
    """Under a permitted address everything works: the guards above are not what always refuses."""
    async with served(Pages(answers={"/a?b=c": answer(b"hello", content_type="text/plain; charset=utf-8")})) as pages:
        page = await local_client(pages).get(f"http://page.test:{pages.port}/a?b=c#d")
        assert (page.status, page.body, page.content_type, page.charset) == (200, b"hello", "text/plain", "utf-8")
        assert (page.url, page.cut) == (f"http://page.test:{pages.port}/a?b=c", False)
        assert pages.asked[0]["host"] == f"page.test:{pages.port}"


async def test_the_name_goes_along_to_the_pinned_address() -> None:
    """TLS is spoken with the name that was asked for, and its certificate is checked for that name."""
    trust = ssl.create_default_context(cafile=str(CERTIFICATE))
    async with served(Pages(answers={"/": answer(b"hello")}), tls=True) as pages:
        client = local_client(pages, tls=trust)
        assert (await client.get(f"https://page.test:{pages.port}/")).body == b"hello"
        assert (pages.names, pages.asked[0]["host"]) == (["page.test"], f"page.test:{pages.port}")
        with pytest.raises(ToolError, match="certificate"):
            await client.get(f"https://other.test:{pages.port}/")
        with pytest.raises(ToolError, match="certificate"):
            await local_client(pages).get(f"https://page.test:{pages.port}/")
        assert len(pages.asked) == 1


async def test_a_name_that_changes_is_looked_up_once() -> None:
    """A resolver that answers well the first time and badly then changes nothing about the request in hand."""
    asked: list[str] = []

    async def rebinding(host: str, port: int) -> Sequence[str]:
        asked.append(host)
        return ["127.0.0.1"] if len(asked) == 1 else ["127.0.0.2"]

    async with served(Pages(answers={"/": answer(b"hello")})) as pages:
        client = local_client(pages, resolve=rebinding)
        assert (await client.get(f"http://page.test:{pages.port}/")).body == b"hello"
        assert asked == ["page.test"]
        with pytest.raises(ToolError, match="not on the public internet"):
            await client.get(f"http://page.test:{pages.port}/")
        assert pages.connections == 1


async def test_a_name_that_changes_between_redirects_is_refused() -> None:
    """Each redirect looks up anew, and is judged anew: to the same name, now at a bad address, it ends."""
    asked: list[str] = []

    async def rebinding(host: str, port: int) -> Sequence[str]:
        asked.append(host)
        return ["127.0.0.1"] if len(asked) == 1 else ["127.0.0.2"]

    async with served(Pages(answers={"/": redirect("/next"), "/next": answer(b"secret")})) as pages:
        with pytest.raises(ToolError, match="not on the public internet"):
            await local_client(pages, resolve=rebinding).get(f"http://page.test:{pages.port}/")
        assert (pages.connections, asked) == (1, ["page.test", "page.test"])


async def test_the_last_look_is_at_the_socket() -> None:
    """Even if a name had been resolved past the guard, no socket is made for an address that is not permitted."""
    client = WebClient()
    for place in (("127.0.0.1", 80), ("10.0.0.1", 443), ("::1", 80, 0, 0), (PUBLIC, 22)):
        with pytest.raises(PermissionError):
            client._socket((2, 1, 6, "", place))
    client._socket((2, 1, 6, "", (PUBLIC, 443))).close()


@pytest.mark.parametrize(
    "location",
    [
        "http://127.0.0.2:{port}/",
        "http://127.0.0.1:22/",
        "http://[::1]:{port}/",
        "//127.0.0.2:{port}/",
        "file:///etc/passwd",
        "ftp://page.test/",
        "http://user:word@page.test:{port}/",
        "http://2130706433:{port}/",
        "http://[",
        "javascript:alert(1)",
    ],
)
@pytest.mark.parametrize("status", ["301 Moved", "302 Found", "303 See Other", "307 Temporary", "308 Permanent"])
async def test_a_redirect_is_judged_like_a_url(location: str, status: str) -> None:
    """Wherever a page sends us, the same rules hold: one connection, to the page itself."""
    async with served(Pages(answers={})) as pages:
        pages.answers = {"/": redirect(location.format(port=pages.port), status)}
        with pytest.raises(ToolError):
            await local_client(pages).get(f"http://page.test:{pages.port}/")
        assert pages.connections == 1


async def test_redirects_are_followed_and_counted() -> None:
    """Five are followed, relative and absolute ones; a sixth is refused."""
    async with served(Pages(answers={})) as pages:
        chain = {f"/{n}": redirect(f"/{n + 1}") for n in range(9)}
        pages.answers = {**chain, "/9": answer(b"end"), "/abs": redirect(f"http://other.test:{pages.port}/9")}
        client = local_client(pages)
        page = await client.get(f"http://page.test:{pages.port}/4")
        assert (page.body, page.url) == (b"end", f"http://page.test:{pages.port}/9")
        assert (await client.get(f"http://page.test:{pages.port}/abs")).url == f"http://other.test:{pages.port}/9"
        pages.asked.clear()
        with pytest.raises(ToolError, match="more than 5 times"):
            await client.get(f"http://page.test:{pages.port}/3")
        assert len(pages.asked) == 6


async def test_nothing_of_ours_goes_along(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No proxy of the environment is used; no cookie, password, referer or other header is sent, redirected or not."""
    async with served(Pages(answers={})) as proxy, served(Pages(answers={})) as pages:
        for name in ("HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "ALL_PROXY", "all_proxy"):
            monkeypatch.setenv(name, f"http://127.0.0.1:{proxy.port}")
        (tmp_path / "netrc").write_text("default login me password SECRET\n")
        monkeypatch.setenv("NETRC", f"{tmp_path}/netrc")
        cookie = answer(status="302 Found", location="/next", set_cookie="session=SECRET; Path=/")
        pages.answers = {"/": cookie, "/next": redirect(f"http://other.test:{pages.port}/last"), "/last": answer(b"x")}
        client = local_client(pages)
        for _ in range(2):
            assert (await client.get(f"http://page.test:{pages.port}/")).body == b"x"
        assert proxy.connections == 0
    names = {"method", "path", "host", "accept", "accept-encoding", "user-agent", "connection"}
    assert [set(asked) - names for asked in pages.asked] == [set()] * 6
    assert {asked["method"] for asked in pages.asked} == {"GET"}


LIMITS = WebLimits(wire_bytes=100_000, body_bytes=300_000, seconds=20)


def endless(piece: bytes) -> Iterator[bytes]:
    """An answer whose body never ends."""
    yield answer(length=False, content_type="text/plain")
    while True:
        yield piece


async def test_a_large_page_is_cut() -> None:
    """Reading stops at the limit, whether the length was said or not, and what was read is kept."""
    async with served(Pages(answers={"/": endless(b"x" * 10_000), "/long": answer(b"y" * 500_000)})) as pages:
        client = WebClient(LIMITS, resolve=here, ports=(pages.port,), permitted=bool)
        for path, letter in (("/", b"x"), ("/long", b"y")):
            page = await client.get(f"http://page.test:{pages.port}{path}")
            assert (page.cut, page.body) == (True, letter * 100_000)


@pytest.mark.parametrize("encoding", ["gzip", "deflate"])
async def test_a_packed_bomb_is_cut(encoding: str) -> None:
    """A page that expands a thousandfold is cut at the limit of what it expands to; no more is ever expanded."""
    pack = gzip.compress if encoding == "gzip" else zlib.compress
    bomb = pack(b"\0" * 50_000_000)
    assert len(bomb) < LIMITS.wire_bytes
    async with served(Pages(answers={"/": answer(bomb, content_encoding=encoding)})) as pages:
        client = WebClient(LIMITS, resolve=here, ports=(pages.port,), permitted=bool)
        page = await client.get(f"http://page.test:{pages.port}/")
    assert (page.cut, len(page.body)) == (True, LIMITS.body_bytes)


async def test_a_bomb_in_a_bomb_is_not_opened() -> None:
    """Only one packing is undone, and only one that was asked for."""
    for encoding in ("gzip, gzip", "br", "zstd", "x"):
        async with served(Pages(answers={"/": answer(gzip.compress(b"x"), content_encoding=encoding)})) as pages:
            with pytest.raises(ToolError, match="not asked for"):
                await local_client(pages).get(f"http://page.test:{pages.port}/")


async def test_packing_is_undone() -> None:
    """An honest packed page is read as what it is; a broken one is said to be."""
    packed = gzip.compress(b"hello" * 1000)
    answers = {"/": answer(packed, content_encoding="gzip"), "/broken": answer(b"no gzip", content_encoding="gzip")}
    async with served(Pages(answers=answers)) as pages:
        page = await local_client(pages).get(f"http://page.test:{pages.port}/")
        assert (page.body, page.cut) == (b"hello" * 1000, False)
        with pytest.raises(ToolError, match="packed wrongly"):
            await local_client(pages).get(f"http://page.test:{pages.port}/broken")


async def here(host: str, port: int) -> Sequence[str]:
    """Every name leads to this machine."""
    return ["127.0.0.1"]


@pytest.mark.parametrize(
    "pieces", [b"", b"HTTP/1.1 200 OK\r\n", answer(b"x" * 10)[:-5]], ids=["silent", "begun", "unfinished"]
)
async def test_a_page_that_does_not_end_is_given_up(pieces: bytes) -> None:
    """The time covers everything: connecting, waiting for the answer, and reading it."""
    async with served(Pages(answers={"/": pieces}, hang=True)) as pages:
        client = WebClient(WebLimits(seconds=0.3), resolve=here, ports=(pages.port,), permitted=bool)
        with pytest.raises(ToolError, match=r"within 0\.3 s"):
            await client.get(f"http://page.test:{pages.port}/")


async def test_a_resolver_that_does_not_answer_is_given_up() -> None:
    """Looking up counts too."""

    async def never(host: str, port: int) -> Sequence[str]:
        return await asyncio.get_running_loop().create_future()

    client = WebClient(WebLimits(seconds=0.1), resolve=never)
    with pytest.raises(ToolError, match=r"within 0\.1 s"):
        await client.get("http://page.test/")


@pytest.mark.parametrize(
    "bytes_sent",
    [
        b"no http at all\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"a: " + b"x" * 100_000 + b"\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"".join(b"h%d: x\r\n" % n for n in range(10_000)) + b"\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: -1\r\n\r\nx",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nFFFFFFFFFFFFFFFFFF\r\n",
        b"",
    ],
)
async def test_a_broken_answer_is_an_error_of_the_page(bytes_sent: bytes) -> None:
    """Whatever a server sends instead of an answer, the model is told in one sentence, and nothing else happens."""
    async with served(Pages(answers={"/": bytes_sent})) as pages:
        with pytest.raises(ToolError) as told:
            await local_client(pages).get(f"http://page.test:{pages.port}/")
    assert len(str(told.value)) < 400


async def test_errors_name_no_way_around() -> None:
    """No refusal names a setting by which it could be avoided."""
    words = ("config", "toml", "setting", "allow", "permit", "option", "proxy")
    for url, _ in rows():
        with pytest.raises(ToolError) as told:
            await WebClient(resolve=resolved, ports=(80, 443, 1)).get(url.format(port=1))
        assert not [word for word in words if word in str(told.value).casefold()], url
