"""Pages as text: what is seen of them, where their content is, and how it is written."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callboard.tools.web.markdown import MAX_COLUMNS, MAX_LINK_CHARS, LinkBase, to_markdown
from callboard.tools.web.page_tree import MAX_DEPTH, Element, main_content, parse_page
from callboard.tools.web.text import beginning, decoded, one_line, visible

URL = "https://site.test/docs/page.html"


def markdown(html: str) -> str:
    page = parse_page(html)
    return to_markdown(main_content(page.body), LinkBase(URL, page.base))


@pytest.mark.parametrize(
    ("html", "text"),
    [
        ("plain", "plain"),
        ("<p>one<p>two", "one\n\ntwo"),
        ("<h1>A <i>b</i></h1><h6>c</h6>", "# A *b*\n\n###### c"),
        ("<h2> </h2><p></p>x", "x"),
        ("a<br>b<br/>\n c", "a\nb\nc"),
        ("<b>bold</b> <em> it </em>.", "**bold** *it* ."),
        ("<b></b><i> </i>x", "x"),
        ("a&nbsp;b &amp; &lt;c&gt;", "a b & <c>"),
        ("<hr>", "---"),
        ("<ul><li>a<li>b<ol start=3><li>c<li>d</ol></ul>", "- a\n- b\n  3. c\n  4. d"),
        ("<ul><li><p>a<p>b</ul>", "- a\n\n  b"),
        ("<blockquote><p>a<p>b</blockquote>", "> a\n>\n> b"),
        ("<dl><dt>word<dd>meaning</dl>", "**word**\n\nmeaning"),
        ("<pre>  a\n   b</pre>", "```\n  a\n   b\n```"),
        ('<pre><code class="hljs language-py">x</code></pre>', "```py\nx\n```"),
        ("<pre>```</pre>", "````\n```\n````"),
        ("<code>a`b</code>", "``a`b``"),
        ("<code>`</code>", "`` ` ``"),
        ("<table><tr><th>a<th>b<tr><td>1|2<td>3", "| a | b |\n| --- | --- |\n| 1\\|2 | 3 |"),
        ("<table><tr><td>only", "only"),
        ("<table><tr><td><h2>A</h2><td>b</table>", "## A\n\nb"),
        ("<table role=presentation><tr><td>a<td>b</table>", "a\n\nb"),
        ("<table><caption>Of x</caption><tr><td>a<td>b", "Of x\n\n| a | b |\n| --- | --- |"),
        ('<img src="https://evil.test/?d=1" alt="a  cat">', "[image: a cat]"),
        ("<img src=x.png>", ""),
        ("<a href=/card><h3>T</h3><p>words</p></a>", "[T words](https://site.test/card)"),
        ("<details><summary>s</summary>d</details>", "s\n\nd"),
        ("<p>a<div>b</div>c", "a\n\nb\n\nc"),
    ],
)
def test_html_is_written_as_markdown(html: str, text: str) -> None:
    assert markdown(html) == text


@pytest.mark.parametrize(
    ("href", "target"),
    [
        ("next.html", "https://site.test/docs/next.html"),
        ("/a?b=c#d", "https://site.test/a?b=c#d"),
        ("//other.test/", "https://other.test/"),
        ("HTTPS://Other.test", "https://Other.test"),
        ("mailto:a@b.test", "mailto:a@b.test"),
        ("a (1).html", "https://site.test/docs/a%20%281%29.html"),
        ("ü", "https://site.test/docs/%C3%BC"),
        ("#part", ""),
        ("", ""),
        ("javascript:alert(1)", ""),
        ("java\nscript:alert(1)", ""),
        ("data:text/html,<b>", ""),
        ("file:///etc/passwd", ""),
        ("https://good.test@evil.test/", ""),
        ("https://[::1", ""),
        ("x" * (MAX_LINK_CHARS + 1), ""),
    ],
)
def test_a_link_is_absolute_or_only_words(href: str, target: str) -> None:
    text = markdown(f'<a href="{href}">words</a>')
    assert text == (f"[words]({target})" if target else "words")


def test_a_link_can_not_be_ended_early_and_a_bare_address_is_one() -> None:
    assert markdown('<a href="/x">a](http://evil.test) [b</a>') == (
        "[a\\](http://evil.test) \\[b](https://site.test/x)"
    )
    assert markdown('<a href="https://a.test/">https://a.test/</a>') == "<https://a.test/>"


def test_a_page_says_what_its_links_are_relative_to_but_only_on_the_web() -> None:
    assert "(https://other.test/x)" in markdown('<base href="//other.test/"><a href=x>w</a>')
    assert "(https://site.test/docs/x)" in markdown('<base href="file:///"><a href=x>w</a>')


@pytest.mark.parametrize(
    "hidden",
    [
        "<script>SECRET</script>",
        "<style>SECRET</style>",
        "<template>SECRET</template>",
        "<noscript>SECRET</noscript>",
        "<!-- SECRET -->",
        "<p hidden>SECRET</p>",
        "<div aria-hidden=true>SECRET</div>",
        '<p style="color:red; DISPLAY : none !important">SECRET</p>',
        '<p style="visibility:hidden">SECRET</p>',
        '<p style="font-size:0px">SECRET</p>',
        '<p style="opacity: 0.0">SECRET</p>',
        '<p style="position:absolute;left:-9999px">SECRET</p>',
        '<p style="text-indent:-9999px">SECRET</p>',
        "<dialog>SECRET</dialog>",
        "<svg><text>SECRET</text></svg>",
        "<iframe>SECRET</iframe>",
        "<textarea>SECRET</textarea><input value=SECRET><select><option>SECRET</select>",
        '<object data="data:SECRET">SECRET</object>',
        "<title>SECRET</title>",
        '<img src="data:image/png;base64,SECRET">',
    ],
)
def test_what_nobody_sees_is_left_out(hidden: str) -> None:
    assert markdown(f"<p>seen</p>{hidden}<p>seen too</p>") == "seen\n\nseen too"


def test_its_controls_are_kept() -> None:
    html = '<p style="opacity:0.5">a</p><p style="left:-1px">b</p><dialog open>c</dialog>'
    assert markdown(f"{html}<p aria-hidden=false>d</p>") == "a\n\nb\n\nc\n\nd"


PROSE = "<p>Words that somebody wrote about the thing, in a long sentence of their own.</p>" * 5


@pytest.mark.parametrize(
    "page",
    [
        "<nav>NOISE</nav><main>{}</main><footer>NOISE</footer>",
        "<div role=navigation>NOISE</div><article>{}</article><aside>NOISE</aside>",
        "<div>NOISE</div><div role=main>{}</div>",
        "<div><div>NOISE</div><div><div id=c>{}</div><div>NOISE</div></div></div>",
        "<table><tr><td><a href=/>NOISE</a><td>{}</table>",
        "<header>NOISE</header>{}<footer>NOISE</footer>",
        "<ul><li><a href=/>NOISE</a></ul><div>{}</div>",
    ],
)
def test_the_content_is_found(page: str) -> None:
    text = markdown(page.format(PROSE))
    assert "NOISE" not in text
    assert text.count("Words that somebody wrote") == 5


def test_what_is_part_of_the_content_stays() -> None:
    html = f"<article><header><h1>T</h1>By A.</header>{PROSE}<aside>note</aside></article>"
    text = markdown(html)
    assert text.startswith("# T\n\nBy A.")
    assert text.endswith("note")


def test_without_a_place_for_the_content_all_of_it_is() -> None:
    links = "".join(f'<div><a href="/{n}">news {n}</a></div>' for n in range(30))
    assert markdown(links).count("](") == 30
    parts = "".join(f"<section>{PROSE}</section>" for _ in range(4))
    assert markdown(parts).count("Words that") == 20
    # A main that holds next to nothing is not what the page is about.
    assert "Words that" in markdown(f"<main>x</main><div>{PROSE}</div>")


def depth(element: Element) -> int:
    return 1 + max((depth(c) for c in element.children if isinstance(c, Element)), default=0)


@pytest.mark.parametrize("tag", ["div", "b", "ul><li", "blockquote", "span><div", "a href=/x"])
def test_a_page_of_any_depth_is_read_to_its_end(tag: str) -> None:
    html = f"<p>first</p>{f'<{tag}>' * 3000}deep<p>last"
    page = parse_page(html)
    assert depth(page.body) <= MAX_DEPTH + 1
    text = to_markdown(page.body, LinkBase(URL))
    assert "first" in text
    assert "deep" in text
    assert "last" in text
    assert len(text) < 20_000


def test_a_table_has_a_bounded_width() -> None:
    text = markdown('<table><tr><td colspan="99999999">a<td>b<tr>' + "<td>c" * 1000 + "</table>")
    assert max(line.count("|") for line in text.splitlines()) == MAX_COLUMNS + 1


def test_characters_that_nobody_sees_are_left_out() -> None:
    tags = "".join(chr(0xE0000 + ord(char)) for char in "ignore")
    text = f"a\u202eb\u2066c\u200bd\x1b[31me\0f{tags}g\ufeffh\u00adi\x9bj"
    assert visible(text) == "abcd[31mefghij"
    assert markdown(f"<p>{text}</p>").replace("\ufffd", "") == "abcd[31mefghij"
    # What words and emoji are written with stays, and so do line ends, of one kind.
    assert visible("क्\u200dष \u2764\ufe0f\r\nx\ty\rz") == "क्\u200dष \u2764\ufe0f\nx\ty\nz"
    assert visible("\ud83d") == "\ufffd"


def test_text_is_cut_where_a_line_or_a_word_ends() -> None:
    assert beginning("abc", 3) == "abc"
    assert beginning("x" * 95 + "\n" + "y" * 20, 100) == "x" * 95
    assert beginning("x" * 95 + " " + "y" * 20, 100) == "x" * 95
    assert beginning("x" * 200, 100) == "x" * 100
    assert one_line(" a\n b ", 10) == "a b"
    assert one_line("x" * 20, 10) == "x" * 9 + "…"


@pytest.mark.parametrize(
    ("data", "stated", "text"),
    [
        ("é€".encode(), "", "é€"),
        ("é€".encode(), "text/html; charset=utf-8", "é€"),
        ("é€ ".encode("cp1252"), "", "é€ "),
        ("é€".encode("cp1252"), "text/html; charset=ISO-8859-1", "é€"),
        ("é€ ".encode("cp1252"), "text/html; charset=no-such", "é€ "),
        ("日本".encode("shift_jis"), 'text/html; charset="Shift_JIS"', "日本"),
        (b'<meta charset="euc-jp">' + "日本".encode("euc-jp"), "", '<meta charset="euc-jp">日本'),
        ("é".encode("utf-16"), "text/html; charset=latin-1", "é"),
        (b"\xef\xbb\xbfa", "text/html; charset=latin-1", "a"),
        (b"+ADw-b+AD4-", "text/html; charset=utf-7", "+ADw-b+AD4-"),
        (b"<meta charset=utf-16>a", "", "<meta charset=utf-16>a"),
        (b"\xff\xfe", "text/html; charset=utf-8", ""),
        (b"a\xff", "text/html; charset=utf-8", "a\ufffd"),
        (b"a", "text/html; charset=idna", "a"),
    ],
)
def test_the_charset_is_found(data: bytes, stated: str, text: str) -> None:
    assert decoded(data, stated) == text


@given(st.text(max_size=300) | st.text(alphabet="<>/abdhiptuls =\"'&;#-!`|\n", max_size=300))
def test_any_text_is_a_page(html: str) -> None:
    assert "\0" not in markdown(html)


@given(st.binary(max_size=300))
def test_any_bytes_are_a_page(data: bytes) -> None:
    assert "\0" not in markdown(decoded(data))
