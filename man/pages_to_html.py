#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""The manual pages and docs/ as HTML: one folder of linked pages, with an index.

usage: pages_to_html.py MAN DOCS OUT

MAN contains man1, man3 and so on, as the build makes it; DOCS is docs/. OUT is deleted and created again. Needs
mandoc and lowdown. References from docs/ to files outside of it (sources, READMEs of folders) are named, not linked.
"""

import glob
import html
import os
import re
import shutil
import subprocess
import sys

SECTIONS = {"1": "Programs", "3": "The interface: a page for each header, and the function in it",
            "5": "Files", "7": "About the whole"}
STYLE = """body { max-width: 60em; margin: 2em auto; padding: 0 1em; font-family: sans-serif; line-height: 1.45; }
table { border-collapse: collapse; } td, th { padding: .2em .6em; vertical-align: top; text-align: left; }
tbody tr:nth-child(even) { background: #f4f4f4; } pre { background: #f4f4f4; padding: .6em; overflow-x: auto; }
table.head, table.foot { width: 100%; color: #666; }
.head-vol { text-align: center; } .head-rtitle { text-align: right; }
"""
PAGE = """<!DOCTYPE html>
<html lang="en">
<head><meta charset="utf-8"><title>{title}</title><link rel="stylesheet" href="style.css"></head>
<body>
<p><a href="index.html">udapl</a></p>
{body}
</body>
</html>
"""


def write(out, name, title, body):
    with open(os.path.join(out, name), "w", encoding="utf-8") as page:
        page.write(PAGE.format(title=html.escape(title), body=body))


def converted(*command, cwd=None):
    return subprocess.run(command, cwd=cwd, stdout=subprocess.PIPE, check=True, text=True, encoding="utf-8").stdout


def manual_pages(man):
    """{(name, section): path}, and {(name, section): (name, section)} for pages that only redirect to another page."""
    pages, aliases = {}, {}
    for path in sorted(glob.glob(os.path.join(man, "man[1-8]", "*.[1-8]"))):
        name, section = os.path.basename(path).rsplit(".", 1)
        with open(path, encoding="utf-8") as page:
            leads_to = re.match(r"\.so man\d/(.+)\.(\d)\s*$", page.read())
        if leads_to:
            aliases[name, section] = leads_to.groups()
        else:
            pages[name, section] = path
    return pages, aliases


def file_of(page):
    return f"{page[0]}.{page[1]}.html"


def convert_manual(man, out):
    pages, aliases = manual_pages(man)

    # name(3), with the name in bold or not; not in the header and footer of the page
    reference = re.compile(r"(?:<[bi]>)?(?P<name>[A-Za-z_][\w.-]*)(?:</[bi]>)?\((?P<section>[1-8])\)(?![^<]*</td>)")

    def link(match):
        page = match["name"], match["section"]
        page = aliases.get(page, page)
        return f'<a href="{file_of(page)}">{match[0]}</a>' if page in pages else match[0]

    for page, path in pages.items():
        body = converted("mandoc", "-T", "html", "-O", "fragment", path)
        write(out, file_of(page), f"{page[0]}({page[1]})", reference.sub(link, body))
    return pages, aliases


def convert_documents(docs, out):
    titles = {}
    sources = {os.path.relpath(path, docs): path
               for path in sorted(glob.glob(os.path.join(docs, "**", "*.md"), recursive=True))}
    names = {name: re.sub(r"\W+", "-", name[:-len(".md")]) + ".html" for name in sources}

    for name, path in sources.items():
        def link(match):
            target, _, anchor = html.unescape(match["target"]).partition("#")
            if "://" in target or not target:
                return match[0]
            inside = names.get(os.path.normpath(os.path.join(os.path.dirname(name), target)))
            if inside is None:
                return match["text"]
            return f'<a href="{inside}{"#" + anchor if anchor else ""}">{match["text"]}</a>'

        body = converted("lowdown", "-T", "html", path)
        body = re.sub(r"<!-- SPDX.*?-->\s*", "", body)
        body = re.sub(r'<a href="(?P<target>[^"]*)">(?P<text>.*?)</a>', link, body, flags=re.DOTALL)
        heading = re.search(r"<h1[^>]*>(.*?)</h1>", body, re.DOTALL)
        titles[names[name]] = re.sub("<[^>]*>", "", heading[1]) if heading else name
        write(out, names[name], html.unescape(titles[names[name]]), body)
    return titles


def write_index(out, pages, aliases, titles):
    body = ["<h1>udapl: the reference</h1>"]
    for section, heading in SECTIONS.items():
        body.append(f"<h2>{heading}</h2>\n<ul>")
        for page in sorted(page for page in pages if page[1] == section):
            functions = sorted(alias[0] for alias, target in aliases.items() if target == page)
            body.append(f'<li><a href="{file_of(page)}">{page[0]}</a>'
                        f'{": " + ", ".join(functions) if functions else ""}</li>')
        body.append("</ul>")
    body.append("<h2>Documents</h2>\n<ul>")
    for name, title in sorted(titles.items(), key=lambda item: (item[0].startswith("adr-"), item[0])):
        body.append(f'<li><a href="{name}">{title}</a></li>')
    body.append("</ul>")
    write(out, "index.html", "udapl", "\n".join(body))


def main():
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    man, docs, out = sys.argv[1:]
    shutil.rmtree(out, ignore_errors=True)
    os.makedirs(out)
    with open(os.path.join(out, "style.css"), "w", encoding="utf-8") as style:
        style.write(STYLE)
    pages, aliases = convert_manual(man, out)
    write_index(out, pages, aliases, convert_documents(docs, out))


if __name__ == "__main__":
    main()
