"""HTML as the platform parses it: every tag, every error and its byte offset."""

from __future__ import annotations

import pytest

from adapters.emulators.telegram.entities import Entity
from adapters.emulators.telegram.html import parse_html
from adapters.emulators.telegram.markup_error import MarkupError


def entity(kind: str, offset: int, length: int, argument: str = "", detail: str = "") -> Entity:
    """Short for one entity."""
    return Entity(type=kind, offset=offset, length=length, argument=argument, detail=detail)


@pytest.mark.parametrize(
    ("source", "text", "entities"),
    [
        ("plain", "plain", ()),
        ("<b>b</b><strong>s</strong>", "bs", (entity("bold", 0, 1), entity("bold", 1, 1))),
        ("<i>i</i><em>e</em>", "ie", (entity("italic", 0, 1), entity("italic", 1, 1))),
        ("<u>u</u><ins>n</ins>", "un", (entity("underline", 0, 1), entity("underline", 1, 1))),
        (
            "<s>s</s><strike>t</strike><del>d</del>",
            "std",
            (entity("strikethrough", 0, 1), entity("strikethrough", 1, 1), entity("strikethrough", 2, 1)),
        ),
        (
            '<tg-spoiler>a</tg-spoiler><span class="tg-spoiler">b</span>',
            "ab",
            (entity("spoiler", 0, 1), entity("spoiler", 1, 1)),
        ),
        ("<code>c</code>", "c", (entity("code", 0, 1),)),
        ("<pre>p</pre>", "p", (entity("pre", 0, 1),)),
        ('<pre><code class="language-python">p</code></pre>', "p", (entity("pre", 0, 1, "python"),)),
        ('<code class="language-go"><pre>p</pre></code>', "p", (entity("pre", 0, 1, "go"),)),
        ("<blockquote>q</blockquote>", "q", (entity("blockquote", 0, 1),)),
        ("<blockquote expandable>q</blockquote>", "q", (entity("expandable_blockquote", 0, 1),)),
        (
            '<a href="https://a.example/?x=1&amp;y=2">l</a>',
            "l",
            (entity("text_link", 0, 1, "https://a.example/?x=1&y=2"),),
        ),
        ("<a>https://a.example/p</a>", "https://a.example/p", (entity("text_link", 0, 19, "https://a.example/p"),)),
        ('<a href="tg://user?id=7">A</a>', "A", (entity("text_mention", 0, 1, "7"),)),
        ('<a href="not a link">l</a>', "l", ()),
        ('<tg-emoji emoji-id="55">👍</tg-emoji>', "👍", (entity("custom_emoji", 0, 2, "55"),)),
        ('<tg-time unix="90" format="r">t</tg-time>', "t", (entity("date_time", 0, 1, "90", "r"),)),
        ("<b>a<i>b</i></b>", "ab", (entity("bold", 0, 2), entity("italic", 1, 1))),
        ("😀<b>x</b>", "😀x", (entity("bold", 2, 1),)),
        ("&lt;&gt;&amp;&quot;&#65;&#x42;&nbsp;&unknown", '<>&"AB&nbsp;&unknown', ()),
        ("&lt b", "< b", ()),
        ("<b></b>x", "x", ()),
        ("<B>x</b >", "x", (entity("bold", 0, 1),)),
        ("<b>x</>", "x", (entity("bold", 0, 1),)),
        ("<a href=example.com>x</a>", "x", (entity("text_link", 0, 1, "http://example.com/"),)),
    ],
)
def test_markup_becomes_entities(source: str, text: str, entities: tuple[Entity, ...]) -> None:
    """Tags leave the text and become entities at UTF-16 offsets."""
    parsed = parse_html(source)
    assert (parsed.text, parsed.entities) == (text, entities)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("é<foo>x</foo>", 'Unsupported start tag "foo" at byte offset 2'),
        ("<b", "Unclosed start tag at byte offset 0"),
        ("a<b>x", 'Can\'t find end tag corresponding to start tag "b"'),
        ("<b>x</i>", 'Unmatched end tag at byte offset 4, expected "</b>", found "</i>"'),
        ("x</b>", "Unexpected end tag at byte offset 1"),
        ("<b>x</b", "Unclosed end tag at byte offset 4"),
        ("<b >x</b y>", "Unclosed end tag at byte offset 5"),
        ('<a ="x">l</a>', 'Empty attribute name in the tag "a" at byte offset 0'),
        ("<a href>l</a>", 'Expected equal sign in declaration of an attribute of the tag "a" at byte offset 0'),
        ("<a href=", 'Unclosed start tag "a" at byte offset 0'),
        ('<a href="x', "Unclosed start tag at byte offset 0"),
        ("<a href=x/y>l</a>", "Unexpected end of name token at byte offset 8"),
        ("<span>x</span>", 'Tag "span" must have class "tg-spoiler" at byte offset 0'),
        ("<tg-emoji>👍</tg-emoji>", "Invalid custom emoji identifier specified"),
        ("1 < 2", 'Unsupported start tag "" at byte offset 2'),
    ],
)
def test_wrong_markup_is_refused_with_its_place(source: str, message: str) -> None:
    """The error has the server's words and counts bytes."""
    with pytest.raises(MarkupError) as caught:
        parse_html(source)
    assert str(caught.value) == message
