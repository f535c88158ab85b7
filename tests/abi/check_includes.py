#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Check that every public header can be included alone, and every two in either order.

usage: check_includes.py INCLUDE_DIR --cc CC --cxx CXX

Each combination is compiled as C and as C++, with warnings as errors. Each header alone is also compiled by the oldest
and newest standards of both languages, and inside `extern "C"`, where old C++ programs include them. Pairs are formed
of the headers that applications and providers name (dat/*.h); the headers below dat/api and the forwarders dat2/*.h
are checked alone.
Prints one line per failure. Exit status: 0 all passed, 1 something failed.
"""
import argparse
import itertools
import pathlib
import subprocess
import sys

WARNINGS = ['-Wall', '-Wextra', '-Wpedantic', '-Wshadow', '-Wconversion', '-Werror']


def compiles(compiler, language, standard, include_dir, headers, in_extern_c=False):
    source = ''.join(f'#include <{header}>\n' for header in headers)
    if in_extern_c:
        source = 'extern "C" {\n' + source + '}\n'
    source += 'extern int nothing;\n'
    command = [compiler, '-x', language, f'-std={standard}', *WARNINGS, f'-I{include_dir}', '-fsyntax-only', '-']
    result = subprocess.run(command, input=source, capture_output=True, text=True, check=False)
    if result.returncode == 0:
        return True
    lines = result.stderr.splitlines() or ['no message']
    why = next((line for line in lines if 'error' in line), lines[0])
    place = ' in extern "C"' if in_extern_c else ''
    print(f"FAIL {language} {standard}{place}: {', '.join(headers)}: {why}")
    return False


def main():
    parser = argparse.ArgumentParser(description='Check that public headers stand alone.')
    parser.add_argument('include_dir', type=pathlib.Path)
    parser.add_argument('--cc', default='cc', help='C compiler')
    parser.add_argument('--cxx', default='c++', help='C++ compiler')
    args = parser.parse_args()

    def below(folder):
        found = sorted((args.include_dir / folder).glob('*.h'))
        return [path.relative_to(args.include_dir).as_posix() for path in found]

    public = below('dat')
    alone = public + below('dat/api') + below('dat2')
    if not public or len(alone) < 3 * len(public):
        print(f'FAIL: headers are missing in {args.include_dir}')
        return 1
    combinations = [(header,) for header in alone] + list(itertools.permutations(public, 2))

    passed = failed = 0
    for compiler, language, standard in ((args.cc, 'c', 'c11'), (args.cxx, 'c++', 'c++11'),
                                         (args.cc, 'c', 'c89'), (args.cc, 'c', 'gnu89'), (args.cc, 'c', 'c2x'),
                                         (args.cxx, 'c++', 'c++98'), (args.cxx, 'c++', 'c++20')):
        every_pair = standard in ('c11', 'c++11')
        for headers in combinations if every_pair else combinations[:len(alone)]:
            if compiles(compiler, language, standard, args.include_dir, headers):
                passed += 1
            else:
                failed += 1
    for standard in ('c++98', 'c++11', 'c++20'):
        for header in alone:
            if compiles(args.cxx, 'c++', standard, args.include_dir, (header,), in_extern_c=True):
                passed += 1
            else:
                failed += 1
    print(f'{passed} passed, {failed} failed')
    return 1 if failed else 0


if __name__ == '__main__':
    sys.exit(main())
