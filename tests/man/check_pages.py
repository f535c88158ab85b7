#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Checks the manual pages.

usage: check_pages.py MAN_FOLDER SYMBOL_LIST PROGRAM...

Every page is clean for `mandoc -Tlint` and for `man --warnings`; every exported function has a page of
section 3 that names it and shows its prototype; every page that another refers to exists; the pages of
the programs name each of their options, and none that the program does not have. No page refers to more than ten
others, because a longer list is not read, except dat(7), which refers to each page of a header. Exit status 0:
everything passed, 1: not.
"""

import os
import re
import shutil
import subprocess
import sys

# Pages of other packages to which our pages refer.
OTHERS = {"babeltrace2(1)", "lttng(1)"}


def run(*words, **more):
    return subprocess.run(words, check=False, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          timeout=60, env={**os.environ, "LC_ALL": "C.UTF-8", "MANWIDTH": "80"}, **more)


def pages_of(folder):
    """{'name(section)': path} of all pages."""
    found = {}
    for section in sorted(os.listdir(folder)):
        for name in sorted(os.listdir(os.path.join(folder, section))):
            base, _, number = name.rpartition(".")
            found[f"{base}({number})"] = os.path.join(folder, section, name)
    return found


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def lint(folder, pages):
    errors = []
    real = [path for path in pages.values() if not read(path).startswith(".so ")]
    for path in real:
        # mandoc looks for referenced pages among the installed ones. References are checked below instead.
        said = run("mandoc", "-T", "lint", "-W", "style", path).stdout
        errors += [line for line in said.splitlines() if "referenced manual not found" not in line]
        said = run("man", "--warnings", "-l", "-E", "UTF-8", path)
        errors += [f"{path}: {line}" for line in said.stderr.splitlines()]
        if len(said.stdout) < 500:
            errors.append(f"{path}: man shows {len(said.stdout)} characters")
    return errors, len(real)


def functions(symbol_list):
    return sorted(set(re.findall(r"^symbol (\S+)", read(symbol_list), re.M)))


def found_and_described(folder, pages, names):
    errors = []
    for name in names:
        if f"{name}(3)" not in pages:
            errors.append(f"{name} has no page")
            continue
        text = read(pages[f"{name}(3)"])
        if text.startswith(".so "):
            text = read(os.path.join(folder, text.split()[1]))
        heading = text.split(".SH SYNOPSIS")[0]
        if not re.search(rf"\b{name}\b", heading):
            errors.append(f"the page of {name} does not name it")
        if f"\\fB{name}\\fR(" not in text.split(".SH DESCRIPTION")[0]:
            errors.append(f"the page of {name} has no prototype of it")
        if f".SS {name}\n" not in text:
            errors.append(f"the page of {name} does not describe it")
    # man(1) also finds a function through a page that only refers to another page.
    shown = run("man", "-M", folder, "3", "dat_ep_post_rdma_read")
    if shown.returncode != 0 or "dat_ep_post_rdma_read" not in shown.stdout:
        errors.append(f"man 3 dat_ep_post_rdma_read: {shown.stderr}")
    return errors


def references(pages):
    errors = []
    for page, path in pages.items():
        for name, section in re.findall(r"^\.BR (\S+) \((\d)\)", read(path).replace("\\-", "-"), re.M):
            if f"{name}({section})" not in pages and f"{name}({section})" not in OTHERS:
                errors.append(f"{page} refers to {name}({section}), which does not exist")
    return errors


def lists(pages):
    errors = []
    for page, path in pages.items():
        listed = re.findall(r"^\.BR (\S+) \(\d\)", read(path).partition(".SH SEE ALSO")[2], re.M)
        if len(listed) > 10 and page != "dat(7)":
            errors.append(f"SEE ALSO of {page} has {len(listed)} pages")
    overview = read(pages["dat(7)"]).replace("\\-", "-")
    for page, path in pages.items():
        name, _, section = page.partition("(")
        named = re.search(name + r"( |\\fR)\(3\)", overview)
        if section == "3)" and not read(path).startswith(".so ") and not named:
            errors.append(f"dat(7) does not lead to {page}")
    return errors


OPTION = re.compile(r"(?<![\w-])--?[A-Za-z][\w-]*")


def options(pages, programs):
    errors = []
    for program in programs:
        name = os.path.basename(program)
        page = pages.get(f"{name}(1)")
        if page is None:
            errors.append(f"{name} has no page")
            continue
        text = read(page).replace("\\-", "-")
        helps = run(program, "--help").stdout
        commands = re.findall(r"^  (\w+)  ", helps.partition("Subcommands:")[2], re.M)
        for command in commands:
            if not re.search(rf"\b{command}\b", text):
                errors.append(f"{name}(1) does not name the subcommand {command}")
            helps += run(program, command, "--help").stdout
        # "  -h,--help  text" and "  -h, --help  text", a second column of options, or one alone.
        in_help = set(re.findall(r"^(?:  |.*  )(?:-\w, ?)?(--?[A-Za-z][\w-]*)", helps, re.M))
        in_help |= set(OPTION.findall(" ".join(re.findall(r"^  .*", helps, re.M)))) & {"--help", "--version"}
        in_page = set()
        for tag in re.findall(r"^\.TP\n\.B[IR]? (.*)", text, re.M):
            in_page |= set(OPTION.findall(re.sub(r"\\f.", " ", tag))) if tag.startswith(("-", '"-')) else set()
        for option in sorted(in_help - {"-h"}):
            if not re.search(rf"(?<![\w-]){option}(?![\w-])", text):
                errors.append(f"{name}(1) does not name the option {option}")
        for option in sorted(in_page):
            if not re.search(rf"(?<![\w-]){option}(?![\w-])", helps):
                errors.append(f"{name} --help does not name the option {option} of its page")
        for option in ("--help", "--version"):
            if option not in in_help or option not in in_page:
                errors.append(f"{name}: no {option}, or not in its page")
    return errors


def main():
    folder, symbol_list, *programs = sys.argv[1:]
    for tool in ("mandoc", "man"):
        if shutil.which(tool) is None:
            print(f"FAILED: no {tool}; script/setup-deps installs it")
            return 1
    pages = pages_of(folder)
    names = functions(symbol_list)
    errors, real = lint(folder, pages)
    errors += found_and_described(folder, pages, names) + references(pages) + lists(pages) + options(pages, programs)
    for error in errors:
        print(error)
    print(f"{real} pages, {len(pages) - real} links, {len(names)} functions, {len(errors)} errors")
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
