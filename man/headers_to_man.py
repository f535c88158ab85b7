#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Makes the manual pages of section 3 from the documented headers.

usage: headers_to_man.py INCLUDE_FOLDER OUTPUT_FOLDER

One page for each header that declares functions, named after it (dat_ia(3) for dat/api/ia.h), and for
each function a page that redirects there, so that `man dat_ia_openv` finds it. Only the markup that the
headers use is understood: @file, @name, @param, @retval, @return, `code`, lists, indented code.
A function without a comment is an error. man3 in the output folder is deleted and created again.
"""

import os
import re
import shutil
import sys
import textwrap

DATE = "2026-11-20"
SOURCE = '"udapl 2.0"'
MANUAL = '"uDAPL Programmer\'s Manual"'

# header, what a program includes for it
HEADERS = [(f"dat/api/{name}.h", "dat/udat.h") for name in (
    "ia", "pz", "lmr", "rmr", "evd", "event", "cno", "ep", "connection", "dto", "srq", "service_point", "cr",
    "handle", "registry")] + [
    ("dat/api/ia_attr.h", "dat/udat.h"), ("dat/api/provider_attr.h", "dat/udat.h"),
    ("dat/dat_error.h", "dat/udat.h"),
    ("dat/dat_registry.h", "dat/dat_registry.h"),
    ("dat/dat_ib_extensions.h", "dat/dat_ib_extensions.h"),
    ("dat/api/ib_counters.h", "dat/dat_ib_extensions.h"),
    ("dat/api/ib_collective.h", "dat/dat_ib_extensions.h"),
    ("dat/dat_iw_extensions.h", "dat/dat_iw_extensions.h"),
    ("dat/dat_diagnosis_extensions.h", "dat/dat_diagnosis_extensions.h"),
    ("dat/dat_trclvl.h", "dat/dat_trclvl.h"),
]


# Pages that a reader of the page is likely to look for next; dat(7) lists all pages.
RELATED = {
    "dat_ia": ("dat_ia_attr", "dat_provider_attr", "dat_registry", "dat_pz", "dat_evd"),
    "dat_pz": ("dat_ia", "dat_lmr", "dat_rmr", "dat_ep", "dat_srq"),
    "dat_lmr": ("dat_pz", "dat_rmr", "dat_dto"),
    "dat_rmr": ("dat_lmr", "dat_pz", "dat_dto"),
    "dat_evd": ("dat_event", "dat_cno", "dat_ia"),
    "dat_event": ("dat_evd", "dat_cno", "dat_connection", "dat_dto", "dat_cr"),
    "dat_cno": ("dat_evd", "dat_event"),
    "dat_ep": ("dat_connection", "dat_dto", "dat_evd", "dat_pz", "dat_srq"),
    "dat_connection": ("dat_ep", "dat_service_point", "dat_cr", "dat_event"),
    "dat_dto": ("dat_ep", "dat_lmr", "dat_rmr", "dat_event", "dat_srq"),
    "dat_srq": ("dat_ep", "dat_dto", "dat_pz"),
    "dat_service_point": ("dat_cr", "dat_connection", "dat_evd"),
    "dat_cr": ("dat_service_point", "dat_connection", "dat_event"),
    "dat_handle": ("dat_ia", "dat_ep", "dat_evd"),
    "dat_registry": ("dat_ia", "dat_provider", "dat_diagnosis_extensions"),
    "dat_ia_attr": ("dat_ia", "dat_provider_attr"),
    "dat_provider_attr": ("dat_ia", "dat_ia_attr"),
    "dat_error": ("dat_diagnosis_extensions", "dat_ia"),
    "dat_provider": ("dat_registry", "dat_ia"),
    "dat_ib_extensions": ("dat_dto", "dat_event", "dat_ib_counters", "dat_ib_collective"),
    "dat_ib_counters": ("dat_ib_extensions", "dat_ia"),
    "dat_ib_collective": ("dat_ib_extensions", "dat_ia"),
    "dat_iw_extensions": ("dat_ep", "dat_connection"),
    "dat_diagnosis_extensions": ("dat_error", "dat_registry", "dat_trclvl"),
    "dat_trclvl": ("dat_ia_attr", "dat_diagnosis_extensions"),
}


class Item:
    """A declaration and its comment. kind: function, macro, type, constant, heading."""

    def __init__(self, kind, name, code, comment):
        self.kind, self.name, self.code, self.comment = kind, name, code, comment


def comment_text(lines):
    """The lines of a /** */ comment without its stars."""
    text = "\n".join(lines).strip()
    text = re.sub(r"^/\*\*", "", text)
    text = re.sub(r"\*/$", "", text)
    return "\n".join(re.sub(r"^\s*\* ?", "", line) if i else line.strip()
                     for i, line in enumerate(text.split("\n"))).strip("\n ")


def read_declaration(lines, at):
    """Lines of the declaration at `at`, and the index of the line after it."""
    first = lines[at]
    end = at
    if first.startswith("#define"):
        while lines[end].endswith("\\"):
            end += 1
        return lines[at:end + 1], end + 1
    if re.match(r"typedef (enum|struct|union)\b", first) and not first.rstrip().endswith(";") or "{" in first:
        depth = 0
        while True:
            code = re.sub(r"/\*.*?\*/", "", lines[end])
            depth += code.count("{") - code.count("}")
            if depth == 0 and (";" in code or code.strip() == "}"):
                return lines[at:end + 1], end + 1
            end += 1
    while ";" not in re.sub(r"/\*.*?\*/", "", lines[end]):
        end += 1
    return lines[at:end + 1], end + 1


def classify(code):
    first = code[0]
    if re.match(r"(DAT_EXPORT|void dat_|static __inline__)", first):
        text = " ".join(" ".join(code).split())
        return "function", re.search(r"(dats?_\w+)\s*\(", text).group(1)
    if match := re.match(r"#define (dats?_\w+)", first):
        return "macro", match.group(1)
    if match := re.match(r"#define (\w+)", first):
        return "constant", match.group(1)
    if first.startswith("typedef"):
        text = " ".join(re.sub(r"/\*.*?\*/", "", " ".join(code)).split())
        match = re.search(r"\(DAT_API \*(\w+)\)|\(\*(\w+)\)|(\w+);$", text)
        return "type", next(group for group in match.groups() if group) if match else ""
    return None, ""


def parse(path):
    """The text of @file, and the items of the header."""
    with open(path, encoding="utf-8") as file:
        lines = file.read().split("\n")
    about, items, pending, at = "", [], None, 0
    while at < len(lines):
        line = lines[at]
        if line.startswith("/**"):
            end = at
            while "*/" not in lines[end]:
                end += 1
            text = comment_text(lines[at:end + 1])
            at = end + 1
            if text.startswith("@file"):
                about = text[len("@file"):].strip()
            elif "@name" in text:
                text = text.replace("@name", "", 1).replace("@{", "").strip()
                items.append(Item("heading", "", [], text))
                pending = None
            elif text.strip() == "@}":
                items.append(Item("end", "", [], ""))
                pending = None
            else:
                pending = text
            continue
        if re.match(r"(DAT_EXPORT|typedef|#define \w|void dat_|static __inline__)", line) and "DECLS" not in line:
            code, at = read_declaration(lines, at)
            kind, name = classify(code)
            if kind:
                items.append(Item(kind, name, code, pending))
            pending = None
            continue
        if line.strip() and not line.startswith(("#", "/*")):
            pending = None
        at += 1
    return about, items


# ---- troff ------------------------------------------------------------------------------------

def escape(text):
    return text.replace("\\", "\\e")


def guard(line):
    """The line, protected so that troff does not interpret it as a request."""
    return "\\&" + line if line.startswith((".", "'")) else line


def prose(text):
    text = escape(" ".join(text.split()))
    text = re.sub(r"`([^`]+)`", r"\\fI\1\\fR", text)
    text = re.sub(r"\b(dats?_\w+)\(\)", r"\\fB\1\\fR()", text)
    return "\n".join(guard(line) for line in textwrap.wrap(text, 78, break_long_words=False,
                                                           break_on_hyphens=False))


def literal(lines):
    out = [guard(escape(line.rstrip()).replace("-", "\\-")) or "\\&" for line in lines]
    return [".PP", ".RS 4", ".nf", *out, ".fi", ".RE"]


def blocks_of(text):
    """Paragraphs of a comment, as lists of lines."""
    return [block.split("\n") for block in re.split(r"\n\s*\n", text) if block.strip()]


def tagged(lines):
    """@param and @retval paragraphs: (tag, name, text) for each."""
    found = []
    for line in lines:
        match = re.match(r"@(param(?:\[[\w,]+\])?|retval|return)\s+(.*)", line)
        if match:
            tag, rest = match.groups()
            name, _, text = ("", "", rest) if tag == "return" else rest.partition(" ")
            found.append([tag, name, text.strip()])
        elif found:
            found[-1][2] += " " + line.strip()
    return found


def list_items(lines):
    items = []
    for line in lines:
        if line.startswith("- "):
            items.append(line[2:])
        else:
            items[-1] += " " + line.strip()
    return items


def is_table(lines):
    return any(re.match(r"\S.*?\S {2,}\S", line) for line in lines)


def body(text):
    """A comment as troff."""
    out = []
    for lines in blocks_of(text):
        if lines[0].startswith("@"):
            entries = tagged(lines)
            heading = "Arguments" if entries[0][0].startswith("param") else "Results"
            out += [".PP", f".I {heading}:"]
            for tag, name, what in entries:
                if tag == "return":
                    out += [".PP", prose(what)]
                    continue
                direction = re.search(r"\[(.*)\]", tag)
                label = f"\\fI{name}\\fR" if direction else f"\\fB{name}\\fR"
                if direction and direction.group(1) != "in":
                    label += f" ({direction.group(1).replace(',', ', ')})"
                out += [".TP", label, prose(what) or "\\&"]
        elif all(line.startswith("    ") for line in lines):
            out += literal([line[4:] for line in lines])
        elif lines[0].startswith("- "):
            for item in list_items(lines):
                out += [".IP \\(bu 2", prose(item)]
        elif is_table(lines):
            out += literal(lines)
        else:
            # "Blocking: ... Threads: ... Spec: ..." reads better with each on its own line.
            if re.match(r"Blocking:", lines[0]):
                parts = re.split(r" (?=(?:Threads|Spec): )", " ".join(" ".join(lines).split()))
                out.append(".PP")
                out.append("\n.br\n".join(prose(part) for part in parts))
            else:
                out += [".PP", prose(" ".join(lines))]
    return out


def signature(item):
    """For the synopsis."""
    text = " ".join(" ".join(line.rstrip("\\") for line in item.code).split())
    if item.kind == "macro":
        match = re.match(r"#define (\w+(?:\([^)]*\))?)(.*)", text)
        return match.group(1) if "(" in match.group(1) else f"{match.group(1)} is {match.group(2).strip()}"
    text = re.sub(r"\b(DAT_EXPORT|DAT_API|static|__inline__)\b", "", text).split("{")[0]
    return " ".join(text.split()).replace("( ", "(").rstrip("; ") + ";"


def synopsis(item):
    text = escape(signature(item))
    head, bracket, arguments = text.partition("(")
    lines = [head + bracket]
    for argument in re.split(r"(?<=,) ", arguments) if bracket else []:
        if len(lines[-1]) + len(argument) > 76 and lines[-1].strip():
            lines.append(" " * 4)
        lines[-1] += argument + (" " if argument.endswith(",") else "")
    lines[0] = re.sub(r"(\bdats?_\w+)", r"\\fB\1\\fR", lines[0], count=1)
    return [".PP", ".nf", *[line.rstrip() for line in lines], ".fi"]


def page_name(header):
    if header == "dat/dat_registry.h":  # dat/api/registry.h already has this name
        return "dat_provider"
    base = os.path.basename(header)[:-2]
    return base if base.startswith("dat_") else "dat_" + base


def summary(about):
    """The first sentence of `about`, without anything that would break the NAME line."""
    first = " ".join(blocks_of(about)[0]).strip()
    first = re.split(r"(?<=[.])\s|:\s+(?=[a-z]+ )", first)[0].rstrip(".")
    return escape(first[0].lower() + first[1:] if first[:2].istitle() else first)


def types_section(items):
    out, code = [], []

    def flush():
        nonlocal code
        out.extend(literal(code) if code else [])
        code = []

    group = None  # the heading of constants that share one
    for item in items:
        if item.kind in ("heading", "end"):
            group = item.comment
        if item.kind not in ("type", "constant"):
            continue
        if item.comment or group:
            flush()
            out += body(item.comment or group)
            group = None
        code += item.code
    flush()
    return [".SH TYPES AND CONSTANTS"] + out if out else []


def without_idle_paragraphs(lines):
    """Drops each .PP that follows a heading or another .PP: a heading begins a paragraph by itself."""
    out = []
    for line in "\n".join(lines).split("\n"):
        if line == ".PP" and out and out[-1].startswith((".SH", ".SS", ".PP")):
            continue
        out.append(line)
    return out


def make_page(header, include, all_pages):
    about, items = header_content(header)
    name = page_name(header)
    calls = [item for item in items if item.kind in ("function", "macro")]
    names = [name] + [item.name for item in calls if item.name != name]
    out = ['.\\" SPDX-License-Identifier: MIT OR GPL-2.0-only',
           f'.\\" Made from <{header}> by headers_to_man.py.',
           f".TH {name.upper()} 3 {DATE} {SOURCE} {MANUAL}", ".SH NAME",
           "\n".join(textwrap.wrap(", ".join(dict.fromkeys(names)) + f" \\- {summary(about)}", 78,
                                   break_on_hyphens=False)),
           ".SH SYNOPSIS", ".nf", f".B #include <{include}>", ".fi"]
    for item in calls:
        out += synopsis(item)
    out.append(".SH DESCRIPTION")
    out += body(about)
    heading = None
    for item in items:
        if item.kind == "heading":
            heading = item.comment
        elif item.kind == "end":
            heading = None
        elif item.kind in ("function", "macro"):
            if item.comment is None and heading is None and item.kind == "function":
                sys.exit(f"{header}: {item.name} is not documented")
            if item.comment is None and heading is None:
                continue  # documented together with the function before it
            out.append(f".SS {item.name}")
            if item.comment is not None:
                out += body(item.comment)
            elif heading:
                out += body(heading)
    out += types_section(items)
    others = [other for other in RELATED[name] if other in all_pages]
    out += [".SH SEE ALSO"]
    see = [f".BR {other} (3)," for other in sorted(others)] + [".BR dat (7)"]
    out += see
    return name, names, "\n".join(without_idle_paragraphs(out)) + "\n"


def header_content(header):
    return parse(os.path.join(sys.argv[1], header))


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    headers = [(h, i) for h, i in HEADERS if os.path.exists(os.path.join(sys.argv[1], h))]
    folder = os.path.join(sys.argv[2], "man3")
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    pages = [page_name(header) for header, _ in headers]
    written = set(pages)
    for header, include in headers:
        name, names, text = make_page(header, include, pages)
        with open(os.path.join(folder, name + ".3"), "w", encoding="utf-8") as file:
            file.write(text)
        for link in names:
            if link in written:
                continue
            written.add(link)
            with open(os.path.join(folder, link + ".3"), "w", encoding="utf-8") as file:
                file.write(f".so man3/{name}.3\n")


if __name__ == "__main__":
    main()
