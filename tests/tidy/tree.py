#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Checks of the source tree that need no compiler.

usage: tree.py ROOT includes|members|licences|paths|marks|citations|sizes

  includes  every #include obeys the layer table below
  members   functions of a class are defined in the folder that declares it
  licences  every source and script names the licence in its first line (scripts: after "#!")
  paths     no file contains a path of a developer's machine
  marks     no unfinished marks
  citations documents of this repository that a file names exist, with the heading (FILE.md#heading), the number
            (adr 0025) or the row (docs/compatibility.md C12) that it names; so do the targets of links in Markdown;
            no section of another reference is named; every ADR is in the index, and every row has its number
  sizes     what is installed is within the size guide, or "## Long files" of the README of its folder says why not:
            headers of 200 lines, sources of 350, and classes whose functions are in three files; warns of other
            files beyond 200 and 400 lines, and of functions beyond 70

Looks at the files git tracks, or at all of them where there is no git. Exit status 0: clean, 1: not.
"""

import os
import re
import subprocess
import sys

SOURCE = (".c", ".cc", ".cpp", ".h", ".hpp")
IDENTIFIER = "SPDX-License-Identifier: MIT OR GPL-2.0-only"

# System headers by theme; each layer may forbid themes.
SOCKETS = re.compile(r"(sys/(socket|un|epoll|select)|netdb|poll|netinet/tcp|arpa/.*|net/.*|"
                     r"linux/(if.*|netlink|rtnetlink|sockios))\.h$|netdb$")
THREADS = re.compile(r"(pthread|threads)\.h$|(thread|future|stop_token|barrier|latch|semaphore)$")
CLOCKS = re.compile(r"(time|sys/time|sys/timerfd|sys/timex)\.h$")
VERBS = re.compile(r"(infiniband|rdma)/")
RDMA_CM = re.compile(r"rdma/|infiniband/ib\.h$")
THIRD_PARTY = re.compile(r"(boost|fmt|CLI|benchmark|isa-l)[/.]|isa-l\.h$")
LOADING = re.compile(r"dlfcn\.h$")
# The system headers that public headers may include: standard C, and the socket address types.
C_HEADERS = re.compile(r"(assert|ctype|errno|inttypes|limits|signal|stdarg|stdbool|stddef|stdint|stdio|"
                       r"stdlib|string|strings|sys/types|sys/socket|sys/select|netinet/in|unistd|"
                       r"endian|byteswap|pthread|features)\.h$")

# The folders of dapl, lowest layer first: each may include those before it.
DAPL_ROOMS = ("transport", "objects", "memory", "posted", "events", "endpoint", "service", "datapath", "table")

# What the folders of the software RNIC may include of the headers above them: interfaces and tables, no part of a QP.
SOFT_BELOW = {"include", "common", "common/tracing", "dapl", "providers/reactor", "providers/connecting",
              "providers/soft/iwarp", "providers/soft/shm"}
SOFT_IO = {f"providers/soft/{name}.h" for name in ("confirmations", "direct_access", "mr_table")}
SOFT_CM = {f"providers/soft/{name}.h" for name in ("access_violations", "connector", "network", "settings")}

# (folder, folders and headers of ours it may include, refused themes). The longest matching folder counts;
# "include" stands for <dat/...> and <dat2/...>, "*" for everything. A folder may include itself.
LAYERS = [
    ("include", {"include"}, "public"),
    ("common", {"include"}, (SOCKETS, VERBS, THIRD_PARTY, LOADING)),
    ("common/nonblocking", {"common"}, (VERBS, THIRD_PARTY, LOADING)),
    ("common/tracing", {"include", "common", "common/nonblocking"}, (SOCKETS, VERBS, THIRD_PARTY, LOADING)),
    ("dat", {"include", "common", "common/tracing", "common/nonblocking"}, (SOCKETS, VERBS, THIRD_PARTY)),
    ("dapl", {"include", "common", "common/tracing"}, (SOCKETS, THREADS, VERBS, THIRD_PARTY, LOADING)),
    *((f"dapl/{room}", {"include", "common", "common/tracing", *(f"dapl/{below}" for below in DAPL_ROOMS[:floor])},
       (SOCKETS, THREADS, VERBS, THIRD_PARTY, LOADING)) for floor, room in enumerate(DAPL_ROOMS)),
    ("providers/reactor", {"include", "common", "common/tracing", "dapl/transport"}, (VERBS,)),
    ("providers/connecting", {"include", "common", "common/tracing", "dapl/transport", "providers/reactor"}, (VERBS,)),
    ("providers/soft", {*SOFT_BELOW, "providers/soft/io", "providers/soft/cm"}, (VERBS,)),
    ("providers/soft/cm", {*SOFT_BELOW, "providers/soft/io", *SOFT_CM}, (VERBS,)),
    ("providers/soft/io", {*SOFT_BELOW, *SOFT_IO}, (VERBS,)),
    ("providers/soft/shm", {"common", "common/tracing"}, (THREADS, VERBS, THIRD_PARTY, LOADING)),
    ("providers/soft/iwarp", {"common", "common/tracing"}, (SOCKETS, THREADS, CLOCKS, VERBS, LOADING)),
    ("providers/verbs",
     {"include", "common", "common/tracing", "dapl", "providers/reactor", "providers/connecting"}, (RDMA_CM,)),
    ("providers/verbs/rdma_cm",
     {"include", "common", "common/tracing", "dapl", "providers/reactor", "providers/connecting", "providers/verbs"},
     ()),
    ("trace", {"include", "common", "common/tracing"}, (VERBS,)),
    ("samples", {"include"}, (VERBS,)),
    ("tools", {"include"}, (VERBS,)),
    ("bench/api", {"include"}, (VERBS,)),
    ("tests/conformance", {"include"}, (VERBS,)),
    ("tests/middleware", {"include"}, (VERBS,)),
    ("tests", {"*"}, ()),
    ("bench", {"*"}, ()),
]

# The folders of the product, whose size guide is enforced: lines of a header and a source, files with functions of a class.
PRODUCT = ("include/", "common/", "dat/", "dapl/", "providers/", "trace/", "tools/")
HEADER_LINES, SOURCE_LINES, CLASS_FILES = 200, 350, 3

# Protocol code receives the time as a parameter, and must not read a clock.
ASKS_FOR_TIME = re.compile(r"_clock::now\b|\bclock_gettime\b|\bgettimeofday\b|\bstd::time\b")

# QPs must not depend on the kind of connector. This matches functions, types and events of librdmacm (rdma_cma.h), but
# no name of the verbs API, which has requests named IBV_WR_RDMA_READ and members named rdma.
NAMES_RDMA_CM = re.compile(r"\b(rdma_(?:cm_|event_|conn_|get_|set_|ack_|create_|destroy_|bind_|resolve_|migrate_|init_|"
                           r"(?:connect|establish|listen|accept|reject|notify|disconnect)\b)|RDMA_(?:CM_|PS_|OPTION_|IB_))")

# A class with its body, and the head of a function that is defined outside of its class, which starts at the left margin.
CLASS = re.compile(r"^ *(?:template <.*>\s*)?(?:class|struct|union) (?:(?:alignas|UDAPL_\w+)\([^)]*\) |\[\[[^\]]*\]\] )*"
                   r"(\w+)(?: final)?(?: :[^;{}]*)? ?\{", re.MULTILINE)
MEMBER = re.compile(r"^(?![\s#/}])[^;({}]*?\b(\w+)(?:<[^<>()]*>)?::(?:\w+::)*~?(?:\w+|operator\W+)\(", re.MULTILINE)

# Written in two pieces, so that this file does not match itself.
MARKS = re.compile(r"\b(?:TO" r"DO|FIX" r"ME|XX" r"X)\b")
PLACES = re.compile(r"(?<![\w.$}])/(?:wor" r"k|hom" r"e|roo" r"t|Use" r"rs|tm" r"p)/[\w.$]")

# What names a document. An ADR's number may be in the next line of a comment.
ROWS = "docs/compatibility.md"  # a citation by a source names one of its rows, or a heading
DOCUMENT = re.compile(r"(?<![\w/.-])(docs/[\w/-]+\.(?:md|svg))(?:#([\w-]+))?")
ADR = re.compile(r"\badrs?(?:\s|//|\*|#)+(\d{4})\b", re.IGNORECASE)
ROW = re.compile(r"(?:\s|//|\*|#)*([A-Z]\d+)\b")
ELSEWHERE = re.compile(r"\b(?:[a-z]+-)?(?:semantics|transport|reference)(?:\s|//|\()+(?:sections?\s+)?\d+\.\d+\b")
LINK = re.compile(r"\]\(([^)\s#:]*)(?:#([^)\s]+))?\)")
CODE = re.compile(r"^```.*?^```|`[^`\n]*`", re.MULTILINE | re.DOTALL)
TEMPORARY = re.compile(r"/tm" r"p/[\w.-]*X{3,}")  # a mktemp template


def tracked_files(root):
    listing = subprocess.run(["git", "-C", root, "ls-files", "-z"], check=False,
                             capture_output=True, text=True)
    if listing.returncode == 0:
        names = listing.stdout.split("\0")
        return [n for n in names if n and os.path.isfile(os.path.join(root, n))]
    names = []
    for folder, folders, files in os.walk(root):
        folders[:] = [f for f in folders if f not in ("build", ".git", "__pycache__")]
        names += [os.path.relpath(os.path.join(folder, f), root) for f in files]
    return names


def read(root, name):
    """The text of a file, or None if it is not text."""
    with open(os.path.join(root, name), "rb") as file:
        data = file.read()
    if b"\0" in data:
        return None
    return data.decode("utf-8", errors="replace")


def layer_of(name):
    matching = [l for l in LAYERS if name.startswith(l[0] + "/")]
    return max(matching, key=lambda l: len(l[0]), default=None)


def folder_allowed(layer, included):
    """Whether a file of `layer` may include our file `included` (path from the root)."""
    target = layer_of(included)
    if target is None:
        return False
    own, allowed = layer[0], layer[1]
    if target[0] == own:
        return True
    if target[0].startswith("dapl/") and "dapl" in allowed:
        return True
    return target[0] in allowed or included in allowed


def without_comments(text):
    """Removes comments, keeping the line count (strings that hold // do not matter here)."""
    text = re.sub(r"/\*.*?\*/", lambda m: "\n" * m.group().count("\n"), text, flags=re.S)
    return re.sub(r"//[^\n]*", "", text)


def without_strings(line):
    return re.sub(r'"(?:\\.|[^"\\])*"', '""', line)


def check_include(root, name, layer, bracket, target):
    """One reason why `name` may not include `target`, or None."""
    if "*" in layer[1]:
        return None
    public = re.match(r"dat2?/", target) and os.path.exists(os.path.join(root, "include", target))
    if bracket == '"' and public and not os.path.exists(os.path.join(root, target)):
        return "public headers are included with <>"
    if public and bracket == "<":
        return None if folder_allowed(layer, "include/" + target) else "not for this layer"
    if bracket == '"':
        beside = os.path.normpath(os.path.join(os.path.dirname(name), target))
        if os.path.exists(os.path.join(root, target)):
            if folder_allowed(layer, target):
                return None
            for house in ("dapl", "providers/soft"):
                if layer[0].startswith(f"{house}/") and target.startswith(f"{house}/"):
                    return f"upward: {house}/README.md has the order"
            return "not for this layer"
        if os.path.exists(os.path.join(root, beside)):
            if layer[0] not in ("samples", "tools", "bench/api", "tests/conformance",
                                "tests/middleware"):
                return "our headers are included by their path from the root"
            return None if folder_allowed(layer, beside) else "not for this layer"
        return "no such file"
    if layer[2] == "public" and name.endswith(".hpp"):
        return None  # C++ headers may include more
    if layer[2] == "public":
        return None if C_HEADERS.match(target) else "public headers use standard C headers only"
    return "not for this layer" if any(theme.match(target) for theme in layer[2]) else None


def includes(root):
    errors, count = [], 0
    for name in tracked_files(root):
        layer = layer_of(name)
        if not name.endswith(SOURCE) or layer is None:
            continue
        text = without_comments(read(root, name) or "")
        for number, line in enumerate(text.split("\n"), 1):
            match = re.match(r'\s*#\s*include\s*([<"])([^>"]+)[>"]', line)
            if match:
                count += 1
                reason = check_include(root, name, layer, match.group(1), match.group(2))
                if reason:
                    errors.append(f"{name}:{number}: {line.strip()}: {reason}")
            elif layer[0] == "providers/soft/iwarp" and ASKS_FOR_TIME.search(line):
                errors.append(f"{name}:{number}: protocol code gets the time as a parameter")
            elif layer[0] == "providers/verbs" and NAMES_RDMA_CM.search(without_strings(line)):
                errors.append(f"{name}:{number}: names rdma_cm, which only providers/verbs/rdma_cm knows")
    return errors, f"{count} includes"


def declared_classes(text):
    """Names of the classes that a text without comments defines, at any depth."""
    return {match[1] for match in CLASS.finditer(text)}


def members(root):
    texts = {name: without_comments(read(root, name) or "") for name in tracked_files(root)
             if name.endswith((".cpp", ".h", ".hpp")) and name.startswith(tuple(f"{l[0]}/" for l in LAYERS))}
    homes = {}
    for name, text in texts.items():
        for declared in declared_classes(text):
            homes.setdefault(declared, set()).add(os.path.dirname(name))
    errors, count = [], 0
    for name, text in texts.items():
        for match in MEMBER.finditer(text):
            count += 1
            folders = homes.get(match[1], set())
            if folders and os.path.dirname(name) not in folders:
                errors.append(f"{name}:{text.count(chr(10), 0, match.start(1)) + 1}: a function of {match[1]}, "
                              f"which {' and '.join(sorted(folders))} declares")
    return errors, f"{count} functions"


def is_script(root, name, text):
    return (name.endswith((".py", ".sh", ".cmake", ".map", ".supp", ".yml", ".yaml"))
            or os.path.basename(name) == "CMakeLists.txt" or text.startswith("#!"))


def licences(root):
    errors, count = [], 0
    for name in tracked_files(root):
        text = read(root, name)
        if not text or not (name.endswith(SOURCE) or is_script(root, name, text)):
            continue
        count += 1
        lines = text.split("\n")
        line = lines[1] if lines[0].startswith("#!") and len(lines) > 1 else lines[0]
        if IDENTIFIER not in line:
            errors.append(f"{name}:1: the first line must be '{IDENTIFIER}' in a comment")
    return errors, f"{count} files"


def lines_with(root, pattern, fault):
    """The lines of all files, except texts of licences, in which `pattern` stands outside temporary folders."""
    errors, count = [], 0
    for name in tracked_files(root):
        if name.startswith("LICENSES/"):
            continue
        count += 1
        for number, line in enumerate((read(root, name) or "").split("\n"), 1):
            if pattern.search(TEMPORARY.sub("", line)):
                errors.append(f"{name}:{number}: {fault}: {line.strip()[:80]}")
    return errors, f"{count} files"


def paths(root):
    return lines_with(root, PLACES, "names a folder of one machine")


def marks(root):
    return lines_with(root, MARKS, "unfinished")


def anchors(root, name):
    """The headings of a Markdown file, as they are named in links, and the numbers of rows of compatibility.md."""
    numbers = row_numbers(root) if name == ROWS else []
    headings = re.findall(r"^#+ (.*)$", CODE.sub("", read(root, name) or ""), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}.union(numbers)


def row_numbers(root):
    return re.findall(r"^\| ([A-Z]\d+) \|", read(root, ROWS) or "", re.MULTILINE)


def rows(root):
    """Rows of compatibility.md without a number, or with that of another one."""
    if not os.path.exists(os.path.join(root, ROWS)):
        return []
    errors, seen = [], set()
    for number, line in enumerate(read(root, ROWS).split("\n"), 1):
        match = re.match(r"\| ([A-Z]\d+) \|", line)
        if line.startswith("| ") and not match and not line.startswith("| | "):
            errors.append(f"{ROWS}:{number}: a row without a number")
        if match and match[1] in seen:
            errors.append(f"{ROWS}:{number}: a second row {match[1]}")
        seen.add(match and match[1])
    return errors


def cited(name, text):
    """(offset, file or None, heading or None, what is written) of each document that `text` names."""
    for match in DOCUMENT.finditer(text):
        row = ROW.match(text, match.end()) if match[1] == ROWS else None
        yield match.start(), match[1], row[1] if row else match[2], match[0]
    if not name.endswith(".md"):
        return
    for match in LINK.finditer(CODE.sub(lambda code: re.sub(r"[^\n]", " ", code[0]), text)):
        target = os.path.normpath(os.path.join(os.path.dirname(name), match[1])) if match[1] else name
        yield match.start(), target, match[2], match[0][1:]


def citations(root):
    pages = [name for name in tracked_files(root) if re.match(r"docs/adr/\d{4}-", name)]
    adrs = {os.path.basename(name)[:4] for name in pages}
    has_index = os.path.exists(os.path.join(root, "docs/adr/README.md"))
    index = read(root, "docs/adr/README.md") if has_index else ""
    errors = [f"{name}:1: not in docs/adr/README.md" for name in pages if f"({os.path.basename(name)})" not in index]
    errors += rows(root)
    count = len(pages)
    for name in tracked_files(root):
        if name.startswith(("LICENSES/", "tests/tidy/")):
            continue
        text = read(root, name) or ""

        def complain(offset, what):
            errors.append(f"{name}:{text.count(chr(10), 0, offset) + 1}: {what}")

        for match in ADR.finditer(text):
            count += 1
            if match[1] not in adrs:
                complain(match.start(), f"there is no adr {match[1]}")
        for match in ELSEWHERE.finditer(text):
            complain(match.start(), f"{' '.join(match[0].split())}: a section of no document of this repository")
        for offset, target, heading, written in cited(name, text):
            count += 1
            if not os.path.exists(os.path.join(root, target)):
                complain(offset, f"{written}: there is no {target}")
            elif heading and target.endswith(".md") and heading not in anchors(root, target):
                complain(offset, f"{written}: {target} has no {heading}")
            elif target == ROWS and not heading and name.endswith(SOURCE):
                complain(offset, f"{written}: name the row")
    return errors, f"{count} citations"


def long_functions(text):
    """(line, length) of blocks beyond 70 lines that start at the left margin or in a class."""
    start = None
    for number, line in enumerate(without_comments(text).split("\n"), 1):
        opens = re.match(r"[^\s#].*\{\s*$", line)
        if opens:
            other = re.match(r"(namespace|class|struct|typedef|enum|union|extern|template)\b", line)
            start = None if other or re.search(r"=\s*\{\s*$", line) or "(" not in line else number
        elif line.startswith("}") and start is not None:
            if number - start + 1 > 70:
                yield start, number - start + 1
            start = None


def long_by_choice(root, folder):
    """(the README that is responsible for a folder, the names in its section "Long files")."""
    while folder and not os.path.exists(os.path.join(root, folder, "README.md")):
        folder = os.path.dirname(folder)
    readme = os.path.join(folder, "README.md")
    if not os.path.exists(os.path.join(root, readme)):
        return readme, set()
    section = re.search(r"^## Long files\n(.*?)(?=^## |\Z)", read(root, readme), re.MULTILINE | re.DOTALL)
    return readme, {os.path.basename(name) for name in re.findall(r"`([^`]+)`", section[1] if section else "")}


def scattered_classes(texts):
    """(folder, class, number of files) where functions of a class are defined outside of it in too many files."""
    files = {}
    for name, text in texts.items():
        for match in MEMBER.finditer(text):
            files.setdefault((os.path.dirname(name), match[1]), set()).add(name)
    homes = {(os.path.dirname(name), declared) for name, text in texts.items() for declared in declared_classes(text)}
    return [(*place, len(names)) for place, names in sorted(files.items())
            if place in homes and len(names) > CLASS_FILES]


def sizes(root):
    errors, count, product = [], 0, {}
    for name in tracked_files(root):
        if not name.endswith(SOURCE):
            continue
        count += 1
        text = read(root, name) or ""
        is_header, is_product = name.endswith((".h", ".hpp")), name.startswith(PRODUCT)
        limit = HEADER_LINES if is_header else SOURCE_LINES if is_product else 400
        lines = text.count("\n")
        if is_product:
            product[name] = without_comments(text)
        readme, explained = long_by_choice(root, os.path.dirname(name)) if is_product and lines > limit else ("", set())
        if readme and os.path.basename(name) not in explained:
            errors.append(f"{name}: {lines} lines (guide: {limit}), and {readme} has no reason")
        elif lines > limit and not readme:
            print(f"warning: {name}: {lines} lines (guide: {limit})")
        for number, length in long_functions(text):
            print(f"warning: {name}:{number}: function of {length} lines (guide: 70)")
    for folder, declared, files in scattered_classes(product):
        readme, explained = long_by_choice(root, folder)
        if declared not in explained:
            errors.append(f"{folder}: functions of {declared} in {files} files (guide: {CLASS_FILES}), and {readme} "
                          "has no reason")
    return errors, f"{count} files"


def main():
    checks = {"includes": includes, "members": members, "licences": licences, "paths": paths, "marks": marks,
              "citations": citations, "sizes": sizes}
    if len(sys.argv) != 3 or sys.argv[2] not in checks:
        print(__doc__, file=sys.stderr)
        return 2
    errors, seen = checks[sys.argv[2]](os.path.abspath(sys.argv[1]))
    for error in errors:
        print(error)
    print(f"{sys.argv[2]}: {seen}, {len(errors)} errors")
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
