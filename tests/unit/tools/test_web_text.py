"""The text of a page: what a reader would see of it, in time that grows with its length and no faster."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.tools.web.text import decoded, readable

PAGE = """<!DOCTYPE html>
<html><head><title>The  &amp;
 title</title><style>p { color: red }</style><script>if (a < b) { document.write("<p>no</p>") }</script>
<meta name="x" content="a > b"></head>
<body><!-- <p>hidden</p> --><h1>Heading</h1><p>One <b>bold</b>word,
 and <i> more </i>.</p><ul><li>first<li><a href="/next?a=1&amp;b=2">second</a></ul>
<pre>  kept
    as is</pre><table><tr><th>a</th><th>b</th></tr><tr><td>1</td><td>2</td></tr></table>
<noscript>no</noscript><svg><text>no</text></svg><p title='a > b'>last &lt;b&gt; 3 < 4 &copy;</p></body></html>"""

TEXT = """# Heading

One boldword, and more .

- first
- second <https://page.test/next?a=1&b=2>

  kept
    as is

a\tb
1\t2

last <b> 3 < 4 ©"""


def test_a_page() -> None:
    """Title, headings, paragraphs, lists, tables, links and verbatim text; no script, style, comment or drawing."""
    page = readable(PAGE, "https://page.test/here")
    assert page.title == "The & title"
    assert page.text == TEXT


@pytest.mark.parametrize(
    ("page", "text"),
    [
        ("", ""),
        ("plain", "plain"),
        ("a<br>b<br/>c<br><br><br>d", "a\nb\nc\n\nd"),
        ("<ul><li>a</li><li>b</li></ul><p>c</p><p>d</p>", "- a\n- b\n\nc\n\nd"),
        ("a<P>b</P>c", "a\n\nb\n\nc"),
        ("1 < 2 and 3 > 2", "1 < 2 and 3 > 2"),
        ("a <", "a <"),
        ("a <b", "a"),
        ("a<!-- open", "a"),
        ("a<!--->b", "ab"),
        ("a<![CDATA[b]]>c", "ac"),
        ("a<script>b", "a"),
        ("a<SCRIPT>b</ScRiPt >c", "ac"),
        ("a<script>x</scripty>y</script>b", "ab"),
        ("<p don't>a</p>b'c", "a\n\nb'c"),
        ('<p x="a>b">c</p>', "c"),
        ("<p x = 'a>b'>c</p>", "c"),
        ('<a href="#here">a</a>', "a"),
        ('<a href="javascript:x">a</a>', "a"),
        ('<a href="data:x">a</a>', "a"),
        ('<a href="http://[">a</a>', "a"),
        ("<a href=b>a</a>", "a <https://page.test/b>"),
        ('<a href="https://page.test/x">https://page.test/x</a>', "https://page.test/x"),
        ('<a href="x"></a>b', "b"),
        ("<a href='x'>a<a href='y'>b</a>", "ab <https://page.test/y>"),
        ("</a></pre></p></li>a", "a"),
        ("<textarea><p>a</textarea>b", "b"),
        ("&amp;lt; &#60; &#x3c; &nope; &", "&lt; < < &nope; &"),
        ("&#" + "9" * 10_000 + ";", "&#" + "9" * 10_000 + ";"),
        ("a\u00a0b\n\n\n\nc", "a b c"),
        ("<div><div><div>a</div></div></div><div>b</div>", "a\nb"),
    ],
)
def test_pieces(page: str, text: str) -> None:
    """Each construct, closed and left open, well written and not."""
    assert readable(page, "https://page.test/").text == text


SLOW = [
    "<",
    "<!--",
    "<a ",
    "&",
    "</",
    "<![CDATA[",
    "<?",
    '<a b="',
    "<script>",
    "<script></",
    "<a\n",
    "&#9",
    "<p>",
    '="',
]


@pytest.mark.parametrize("piece", SLOW)
def test_time_grows_with_length(piece: str) -> None:
    """What takes other readers minutes: four times the length takes about four times as long, not sixteen."""

    def seconds(length: int) -> float:
        page = piece * (length // len(piece))
        started = time.process_time()
        readable(page)
        return time.process_time() - started

    short = min(seconds(50_000) for _ in range(3))
    assert seconds(400_000) < max(8 * short * 4, 1.0)


@given(st.text(alphabet="<>/!-?&;#\"'= abpthrefsciltx\n", max_size=80))
def test_any_page_is_read(page: str) -> None:
    """Whatever stands in it, reading it ends without an error and adds no line that was not there."""
    found = readable(page, "https://page.test/")
    assert "\n\n\n" not in found.text


@pytest.mark.parametrize(
    ("body", "charset", "text"),
    [
        ("ä€".encode(), None, "ä€"),
        ("ä".encode("latin-1"), "iso-8859-1", "ä"),
        ("я".encode("koi8-r"), "KOI8-R", "я"),
        (b'<meta charset="windows-1252">\x80', None, '<meta charset="windows-1252">€'),
        (b"<meta http-equiv=x content='text/html; charset=latin1'>\xe4", None, None),
        (b"a\xff", None, "a\ufffd"),
        (b"abc", "zip_codec", "abc"),
        (b"abc", "punycode", "abc"),
        (b"abc", "unicode_escape", "abc"),
        (b"abc", "utf-8-of-another-kind", "abc"),
        (b"abc", "x" * 1000, "abc"),
    ],
)
def test_characters(body: bytes, charset: str | None, text: str | None) -> None:
    """The character set that a page names is used if it is one; anything else is read as UTF-8, never as a program."""
    read = decoded(body, charset)
    assert read.endswith("ä") if text is None else read == text
