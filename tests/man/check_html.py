#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Generates the reference as HTML and checks it: every page is in the index, every link has a target.

usage: check_html.py PAGES_TO_HTML.PY MAN DOCS
"""

import glob
import html
import os
import re
import subprocess
import sys
import tempfile


def anchors_of(text):
    return set(re.findall(r'\bid="([^"]*)"', text))


def main():
    program, man, docs = sys.argv[1:]
    errors = []
    with tempfile.TemporaryDirectory() as out:
        subprocess.run([sys.executable, "-B", program, man, docs, out], check=True)
        pages = {}
        for path in glob.glob(os.path.join(out, "*.html")):
            with open(path, encoding="utf-8") as page:
                pages[os.path.basename(path)] = page.read()
    links = 0
    for name, text in pages.items():
        for link in re.findall(r'href="([^"]*)"', text):
            target, _, anchor = html.unescape(link).partition("#")
            if "://" in target or target == "style.css":
                continue
            links += 1
            if target and target not in pages:
                errors.append(f"{name}: no page {target}")
            elif anchor and anchor not in anchors_of(pages[target or name]):
                errors.append(f"{name}: no place {link}")
    listed = set(re.findall(r'href="([^"#]*)"', pages["index.html"]))
    errors += [f"index.html lacks {name}" for name in pages if name not in listed | {"index.html"}]
    for name in ("dat_ep_create", "datinfo.1.html", "dat.7.html", "architecture.html"):
        if name not in pages["index.html"]:
            errors.append(f"index.html does not name {name}")
    if 'href="dat_lmr.3.html"' not in pages["dat_dto.3.html"]:
        errors.append("manual pages do not refer to each other")
    print("\n".join(errors))
    print(f"{len(pages)} pages, {links} links, {len(errors)} errors")
    sys.exit(bool(errors))


if __name__ == "__main__":
    main()
