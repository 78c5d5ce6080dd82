"""Markdown of models and people as HTML: what becomes of each kind, and nothing else whatever the text."""

from __future__ import annotations

import re
from typing import Final
from xml.etree.ElementTree import Element

import html5lib
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from touchstone.markdown import MAX_DEPTH, markdown

HEAD: Final = '<!DOCTYPE html><html lang="en"><head><title>t</title></head><body><main>'
FOOT: Final = "</main></body></html>"
ALLOWED: Final = {
    **{name: {"dir"} for name in ("p", "h3", "h4", "h5", "h6", "ul", "blockquote", "pre", "table")},
    **{name: set() for name in ("li", "hr", "br", "code", "em", "strong", "s", "thead", "tbody", "tr")},
    "ol": {"dir", "start"},
    "a": {"href", "title"},
    "th": {"class", "scope"},
    "td": {"class"},
}
VALUES: Final = {"dir": {"auto"}, "class": {"num"}, "scope": {"col"}}
FORBIDDEN: Final = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ufdd0-\ufdef\ufffe\uffff\u202d\u202e]")


def parsed(html: str) -> Element:
    """The element that holds `html` in a page; fails where HTML is not valid."""
    parser = html5lib.HTMLParser(html5lib.getTreeBuilder("etree"), namespaceHTMLElements=False, strict=True)
    main: Element | None = parser.parse(HEAD + html + FOOT).find("body/main")
    assert main is not None
    return main


def checked(text: str) -> Element:
    """The HTML of `text`; fails at whatever is not allowed."""
    html = str(markdown(text))
    assert not FORBIDDEN.search(html)
    main = parsed(html)
    for element in main.iter():
        if element is main:
            continue
        assert set(element.attrib) <= ALLOWED[element.tag], (element.tag, element.attrib)
        for name, value in element.attrib.items():
            if name == "href":
                assert re.match(r"(?i)https?://[^/]|mailto:.", value), value
            elif name == "start":
                assert re.fullmatch(r"\d{1,9}", value)
            elif name in VALUES:
                assert value in VALUES[name]
    return main


def flat(text: str, below: int = 3) -> str:
    """HTML without line ends."""
    return str(markdown(text, below)).replace("\n", "")


@pytest.mark.parametrize(
    "text, html",
    [
        ("One *two* **three** `a < b`", "<p>One <em>two</em> <strong>three</strong> <code>a &lt; b</code></p>"),
        ("# A\n\n## B\n\n###### F", "<h3>A</h3><h4>B</h4><h6>F</h6>"),
        ("- a\n- b\n  - c", "<ul><li>a</li><li>b<ul><li>c</li></ul></li></ul>"),
        ("7. a\n8. b", '<ol start="7"><li>a</li><li>b</li></ol>'),
        ("- [ ] a\n- [x] b", "<ul><li>☐ a</li><li>☑ b</li></ul>"),
        ("> a\n\n---", "<blockquote><p>a</p></blockquote><hr>"),
        ("```python\nif a < b:\n```", "<pre><code>if a &lt; b:</code></pre>"),
        ("    x", "<pre><code>x</code></pre>"),
        ("a  \nb\\\nc", "<p>a<br>b<br>c</p>"),
        ("~~gone~~, but 5~10 and 6~7", "<p><s>gone</s>, but 5~10 and 6~7</p>"),
        ("&amp; &copy; &#65; &nope;", "<p>&amp; © A &amp;nope;</p>"),
        ("\\*a\\* \\$5", "<p>*a* $5</p>"),
        ("", ""),
    ],
)
def test_commonmark(text: str, html: str) -> None:
    assert flat(text) == html
    checked(text)


def test_a_table_aligns_its_numbers_without_a_style() -> None:
    assert flat("| a | b | c |\n|---|--:|:-:|\n| 1 | 2 |") == (
        '<table><thead><tr><th scope="col">a</th><th scope="col" class="num">b</th><th scope="col">c</th></tr></thead>'
        '<tbody><tr><td>1</td><td class="num">2</td><td></td></tr></tbody></table>'
    )


@pytest.mark.parametrize("below, tags", [(2, ["h2", "h6"]), (3, ["h3", "h6"]), (6, ["h6", "h6"])])
def test_headings_stand_below_those_of_the_page(below: int, tags: list[str]) -> None:
    assert [element.tag for element in parsed(str(markdown("# a\n\n##### b", below)))] == tags


@pytest.mark.parametrize(
    "text, html",
    [
        ("<b onclick='x'>y</b>", "<p>&lt;b onclick='x'&gt;y&lt;/b&gt;</p>"),
        ("<div>\n**x**\n</div>", "<p>&lt;div&gt;<strong>x</strong>&lt;/div&gt;</p>"),
        ("<!-- a\n\n**b**", "<p>&lt;!-- a</p><p><strong>b</strong></p>"),
        ("<think>\na\n\n# b\n</think>", "<p>&lt;think&gt;a</p><h3>b</h3><p>&lt;/think&gt;</p>"),
        ("**Note:**<br>x", "<p><strong>Note:</strong>&lt;br&gt;x</p>"),
        ("\\<b> `<b>` [a](<b>)", "<p>&lt;b&gt; <code>&lt;b&gt;</code> a</p>"),
        ("```\n<script>\n```", "<pre><code>&lt;script&gt;</code></pre>"),
        ("&lt;b&gt; &amp;lt;", "<p>&lt;b&gt; &amp;lt;</p>"),
    ],
)
def test_raw_html_is_text_and_hides_no_markdown(text: str, html: str) -> None:
    assert flat(text) == html
    checked(text)


@pytest.mark.parametrize(
    "text, html",
    [
        ("[a](https://a.example/b?c=1&d#e)", '<a href="https://a.example/b?c=1&amp;d#e">a</a>'),
        ('[a](http://b.example "t\\"")', '<a href="http://b.example" title="t&quot;">a</a>'),
        ("[a][b]\n\n[b]: <https://c.example/x y>", '<a href="https://c.example/x%20y">a</a>'),
        ("<https://d.example/~e>", '<a href="https://d.example/~e">https://d.example/~e</a>'),
        ("<me@e.example>", '<a href="mailto:me@e.example">me@e.example</a>'),
        ("[ü](https://f.example/ü)", '<a href="https://f.example/%C3%BC">ü</a>'),
        ("[*a*](javascript:alert(1))", "<em>a</em>"),
        ("[a](JaVaScRiPt:x) [b](data:text/html,x) [c](vbscript:x)", "a b c"),
        ("[a](//evil.example) [b](/x) [c](x.html) [d](#x) [e]() [f](file:///x)", "a b c d e f"),
        ("[a](&#x68;ttps://g.example)", '<a href="https://g.example">a</a>'),
        ("<javascript:alert(1)>", "javascript:alert(1)"),
        ("www.example.org https://h.example", "www.example.org https://h.example"),
    ],
)
def test_only_absolute_web_and_mail_addresses_are_links(text: str, html: str) -> None:
    assert flat(text) == f"<p>{html}</p>"
    checked(text)


@pytest.mark.parametrize(
    "text, words",
    [
        ("![A *cat* `x` & <b>](https://evil.example/c.png)", "A cat x &amp; &lt;b&gt;"),
        ("![](https://evil.example/c.png)!", "!"),
        ("![a ![b](x) [c](https://d.example)](y)", "a b c"),
        ("[![a](x)](https://b.example)", '<a href="https://b.example">a</a>'),
    ],
)
def test_a_picture_is_its_alternative_text(text: str, words: str) -> None:
    assert flat(text) == f"<p>{words}</p>"


@pytest.mark.parametrize(
    "text",
    [
        r"\(a_1 * b_2 * c\)",
        r"\[ \begin{pmatrix} a & b \\ c & d \\[2pt] \end{pmatrix} \]",
        "\\[\n- x\n= y\n\\]",
        "$$\n\\{x\\} *a* \\\\\n# b\n$$",
        "so $a*b*c$, $x_{a}_b$ and $\\{1, 2\\}$.",
        "**Area:**\\(r^2\\)",
        "设$x*y*z$为",
        r"\(a<b\) and \(c|d\) and \(\alpha\)",
        "[x$]$ *",
    ],
)
def test_formulas_stay_as_they_stand(text: str) -> None:
    said = "".join(checked(text).itertext()).strip()
    assert said == text.replace("**", "")


@pytest.mark.parametrize(
    "text, html",
    [
        ("**$5** to **$10**", "<strong>$5</strong> to <strong>$10</strong>"),
        ("$5 and *6* or 7$ and $8", "$5 and *6* or 7$ and $8"),
        ("US$5, *really*, US$6", "US$5, <em>really</em>, US$6"),
        ("$HOME *and* $PATH", "$HOME <em>and</em> $PATH"),
        ("$5 `a*b` *c* d$", "$5 <code>a*b</code> <em>c</em> d$"),
        ("`\\(a\\)` `$x$` `~`", "<code>\\(a\\)</code> <code>$x$</code> <code>~</code>"),
        ("\\[ *alone*", "[ <em>alone</em>"),
        ("\\\\(*a*\\\\)", "\\(<em>a</em>\\)"),
        (
            "[a $1](https://b.example) or [c 2$](https://d.example)",
            '<a href="https://b.example">a $1</a> or <a href="https://d.example">c 2$</a>',
        ),
    ],
)
def test_prices_variables_and_code_are_no_formulas(text: str, html: str) -> None:
    assert flat(text) == f"<p>{html}</p>"


def test_a_formula_in_a_quote_a_list_and_a_table_stays_there() -> None:
    assert flat("> \\[\n> - a_1\n> \\]") == "<blockquote><p>\\[- a_1\\]</p></blockquote>"
    assert flat("1. x\n   $$\n   - y\n   $$") == "<ol><li>x$$- y$$</li></ol>"
    assert "<td>\\(a|b\\)</td><td>c</td>" in flat("|x|y|\n|-|-|\n|\\(a|b\\)|c|")


def test_each_outermost_block_has_its_own_direction_where_some_text_runs_from_the_right() -> None:
    html = markdown("English\n\nעברית\n\n- אחת\n- two\n\n> שלוש\n\n```\ncode\n```\n\n|א|b|\n|-|-|\n|1|2|\n\n# ד")
    main = parsed(str(html))
    assert [(e.tag, e.attrib) for e in main] == [
        (tag, {"dir": "auto"}) for tag in ("p", "p", "ul", "blockquote", "pre", "table", "h3")
    ]
    assert [e.tag for e in main.iter() if "dir" in e.attrib] == [e.tag for e in main]
    assert "dir" not in markdown("Größe, 漢字, emoji 👍🏽")


@pytest.mark.parametrize("code", [0x202E, 0x202D, 0x1, 0x7F, 0x85, 0xFDD0, 0xFFFE, 0xD800, 0x110000, 0x1D000, 0])
def test_what_a_page_may_not_hold_comes_in_neither_as_itself_nor_by_number(code: int) -> None:
    for text in (f"&#{code};", f"&#x{code:x};", f"[a](https://b.example/&#{code}; '&#{code};')"):
        checked(text)
    if code not in (0xD800, 0x110000):
        checked(f"a{chr(code)}b **{chr(code)}** `{chr(code)}`")


def test_the_characters_that_stand_in_for_marks_may_stand_in_a_text() -> None:
    signs = "\U0001d000\U0001d01f\U0001d020\U0001d021"
    assert flat(f"{signs} `{signs}` <b> \\(x\\) ~ {signs[2]}") == (
        f"<p>{signs} <code>{signs}</code> &lt;b&gt; \\(x\\) ~ {signs[2]}</p>"
    )


WORDS: Final = (
    "a b 1 . , : ; ! ? # * ** _ ` ``` ~ ~~ [ ] ( ) < > </ /> & &# ; \\ \\( \\) \\[ \\] $ $$ | |- -: + - = / // @ ' \" "
    "http://x javascript: mailto: א 漢 👍 \u202e \ufdd0 \x01 \U0001d000 \U0001d020 &#x202e; &lt; <b> <!-- ]]> ![ ]( ]: "
    "[^1] [x] <script> </main> </title>"
)
SPACE: Final = (" ", "    ", "\t", "\r", "\n", "\n\n", "\n> ", "\n- ", "\n1. ", "\n|a|b|\n|-|-:|\n", "\n```\n")
PIECES: Final = st.sampled_from([*WORDS.split(" "), *SPACE])


@settings(max_examples=300)
@given(st.lists(PIECES, max_size=40).map("".join) | st.text(max_size=80))
def test_any_text_becomes_only_what_we_chose(text: str) -> None:
    checked(text)


@given(st.text(st.sampled_from("ab \\$*_<>~&#;()[]`\U0001d000\U0001d020|"), max_size=40))
def test_in_a_code_block_every_character_stays(text: str) -> None:
    block = checked(f"~~~\nx{text}\n~~~\n")[0]
    assert "".join(block.itertext()) == f"x{text}\n"


MARKS: Final = (
    "> [ ( * _ ` ~ < & | # - + $ \\ \" ' א ![ ]( []( [a]( ~~a `` `a <!-- <? <![CDATA[ <x@ <a: \\( \\[ $` &#1;"
)
LINES: Final = (
    ">" * 99 + "\n",
    "\n",
    "\n\n",
    "-\n",
    "\\[a\n",
    "$$a\n",
    "|a|\n|-|\n",
    "a|b\n-|-\n",
    "> \\[\n",
    "```\n",
    "#\n",
    "a\n=\n",
    "\t- a\n",
)
SPACED: Final = (
    "**a ",
    "*a ",
    "a* ",
    "*a_ ",
    "> - ",
    "- ",
    "1. ",
    "<a ",
    '[a](b "',
    "[a]: b\n",
    "[a]:\n",
    "- [ ] ",
    "$a ",
)


@pytest.mark.parametrize("piece", [*MARKS.split(" "), *LINES, *SPACED], ids=repr)
def test_hostile_repetition_stays_small_and_shallow(piece: str) -> None:
    text = piece * (100_000 // len(piece))
    html = str(markdown(text))
    assert len(html) < 32 * len(text) + 1000
    depth = deepest = 0
    for tag in re.finditer(r"<(/?)(\w+)", html):
        if tag[2] not in ("br", "hr"):
            depth += -1 if tag[1] else 1
            deepest = max(deepest, depth)
    assert depth == 0 and deepest <= 2 * MAX_DEPTH + 10


@pytest.mark.parametrize(
    "text",
    [
        "- " * 25_000 + "a\n" + "b\n" * 25_000,
        ">" * 50_000 + "a\n" + "b\n" * 25_000,
        "\n".join(" " * 2 * n + "- a" for n in range(300)) + "\n" + "b\n" * 4000,
        "*a" * 25_000 + "a*" * 25_000,
        "|a" * 1000 + "|\n" + "|-" * 1000 + "|\n" + "|b\n" * 20_000,
        "[x]: /" + "y" * 40_000 + "\n\n" + "[x]" * 20_000,
        "[x]: https://y.example '" + "t" * 40_000 + "'\n\n" + "[x]" * 20_000,
        "".join("`" * n + "a" for n in range(1, 440)),
    ],
    ids=("lists", "quotes", "indents", "stars", "cells", "addresses", "titles", "ticks"),
)
def test_what_grows_with_depth_or_width_is_bounded(text: str) -> None:
    assert len(markdown(text)) < 32 * len(text) + 100_000


def test_what_is_too_deep_is_text() -> None:
    main = checked(">" * 300 + "x\n\n" + "- " * 300 + "**y**")
    assert len([e for e in main.iter() if e.tag == "blockquote"]) == MAX_DEPTH
    said = " ".join("".join(main.itertext()).split())
    assert "x" in said and "y" in said
    long = checked(">" * 6000 + "x")
    assert "".join(long.itertext()).strip() == ">" * (6000 - MAX_DEPTH) + "x"
