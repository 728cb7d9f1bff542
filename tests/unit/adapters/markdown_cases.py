"""Markdown that has broken somebody's bot, and markdown made at random."""

from __future__ import annotations

from hypothesis import strategies as st

CASES = {
    "nested list with fence": "- a\n  ```py\n  x = 1\n  ```\n- b\n  1. c\n\n     ```\n     y\n     ```\n  2. d",
    "task list": "- [ ] open\n- [x] done",
    "table with pipe in code": "| a | b |\n|---|---|\n| `x \\| y` | 2 |\n| 3 |",
    "fence in fence": "````md\n```py\nx\n```\n````",
    "double backticks": "``a ` b`` and ` `` `",
    "address with parentheses": "[Foo](https://en.wikipedia.org/wiki/Foo_(bar)) and <https://x.example/a b>",
    "script address": "[click](javascript:alert(1)) [rel](/path) [mail](mailto:a@b.example) [user](tg://user?id=42)",
    "html": "a <b>c</b> `<i>`\n\n<div>\nz *y*\n</div>\n\n<!-- hidden -->\n\n<script>x</script>",
    "generics": "List<String> x = foo<bar>(y); if a <b and c> d",
    "broadcasts": "<!channel> <@U1> @everyone @here @alice <!here|x> &<b>",
    "unbalanced": "**bold *both* and __more\n\n***three*** a**b `code",
    "cjk": '**"x"**y **加粗，**文字',
    "emoji": "👨‍👩‍👧‍👦 🇩🇪 **👍🏽** e\u0301 𝔘𝔫𝔦 `𝔠`",
    "right to left": "\u202eevil\u202c שלום **עולם** 1. مرحبا",
    "headings": "# one `two`\n\nsetext *x*\n=====\n\n### \n\ntext",
    "quotes": "> a\n> > b\n> > c\nlazy\n\n> - d\n>   e",
    "hard breaks": "a  \nb\\\nc\nd",
    "specials": "_*[]()~`>#+-=|{}.!\\ 1\\. \\# $5 and $6 ||no spoiler|| ~one~ ~~two~~",
    "references": "[one][x] and [two]\n\n[x]: https://a.example 'title'\n[two]: <https://b.example>",
    "definitions only": "[x]: https://a.example",
    "images": "![alt *text*](https://x.example/i.png) ![](https://y.example)",
    "rule": "a\n\n---\n\nb\n***\nc",
    "indented code": "text\n\n    code\n\ttabbed\n\nmore",
    "tabs": ">\tquoted\n\n-\titem\n\n\tinside\n\n1.\tone",
    "empty things": "- \n-\n\n> \n\n```\n```\n\n#\n",
    "loose numbers": "7. a\n7. b\n\n\n9) c",
    "deep": "> " * 90 + "deep",
    "deep list": "\n".join("  " * depth + "- x" for depth in range(60)),
    "brackets": "[" * 300 + "x" + "]" * 300,
    "entities": "&amp; &lt;b&gt; &#35; &nbsp;x &copy;",
    "odd characters": "nul\x00 bell\x07 sep\u2028x \ufeff \ud800 \udfff \U000e0041 \t tab",
    "blank": " \n\t\n",
    "zero width": "\u200b\u2060",
}

WORDS = st.sampled_from(
    [
        "word", "a", "**", "*", "_", "__", "~~", "`", "``", "x*y", "1.", "- ", "+", "#", ">", "[a](https://a.example)",
        "[b][r]", "![i](u)", "<b>", "</b>", "&amp;", "\\", "\\*", "|", "||", "👨‍👩‍👧‍👦", "e\u0301", "\u202e", "@alice",
        "``` x", "https://x.example/?a=1&b=2", "$x$", "(", ")", "[", "]", "!", "=", "~", "\u00a0",
        "שלום", "W" * 70, "🙂" * 40,
    ]
)  # fmt: skip
LINES = st.lists(WORDS, min_size=0, max_size=12).map(" ".join)
STARTS = st.sampled_from(
    ["", "", "", "- ", "* ", "1. ", "12) ", "> ", "> > ", "# ", "## ", "```", "```py", "~~~", "    ", "\t", "  ",
     "   - ", "| a | b |", "|---|---|", "---", "===", "[r]: https://r.example", "> - ", "- > ", "-\t", "<div>", "<!-- "]
)  # fmt: skip
MARKDOWN = st.lists(st.tuples(STARTS, LINES).map("".join), max_size=40).map("\n".join)
ANY_TEXT = st.text(max_size=400)
