#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Tests tree.py and exports.py: a small tree with one fault of each kind, each of which must be found."""

import os
import tempfile
import unittest

import exports
import tree

SPDX = "// SPDX-License-Identifier: MIT OR GPL-2.0-only\n"


class TreeTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = folder.name
        for name in ("include/dat/udat.h", "common/fd.h", "common/tracing/trace.h", "dat/conf.h", "dapl/endpoint/ep.h",
                     "dapl/transport/qp.h", "providers/verbs/rdma_cm/id.h", "providers/soft/io.h",
                     "providers/soft/iwarp/mpa.h", "providers/soft/io/bell.h", "providers/soft/cm/listener.h",
                     "providers/soft/connector.h", "providers/soft/queue.h", "samples/common.h"):
            self.write(name, "")

    def write(self, name, text):
        path = os.path.join(self.root, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(SPDX + text)

    def errors_of(self, name, line):
        self.write(name, line + "\n")
        errors, _ = tree.includes(self.root)
        os.remove(os.path.join(self.root, name))
        return errors

    def test_refused_includes(self):
        for name, line in (
                ("common/a.h", '#include "dapl/endpoint/ep.h"'),
                ("common/a.h", '#include "common/tracing/trace.h"'),
                ("common/a.h", "#include <sys/socket.h>"),
                ("dat/a.cpp", '#include "dapl/endpoint/ep.h"'),
                ("dat/a.cpp", '#include "providers/soft/io.h"'),
                ("dapl/endpoint/a.cpp", '#include "dat/conf.h"'),
                ("dapl/endpoint/a.cpp", '#include "providers/soft/io.h"'),
                ("dapl/endpoint/a.cpp", "#include <infiniband/verbs.h>"),
                ("dapl/endpoint/a.cpp", "#include <thread>"),
                ("dapl/endpoint/a.cpp", "  #  include <sys/epoll.h>"),
                ("dapl/endpoint/a.cpp", '#include "ep.h"'),
                ("dapl/endpoint/a.cpp", '#include "dat/udat.h"'),
                ("dapl/transport/a.h", '#include "dapl/endpoint/ep.h"'),
                ("dapl/objects/a.h", '#include "dapl/endpoint/ep.h"'),
                ("dapl/events/a.cpp", '#include "dapl/endpoint/ep.h"'),
                ("providers/soft/a.cpp", '#include "dat/conf.h"'),
                ("providers/soft/iwarp/a.h", '#include "dapl/endpoint/ep.h"'),
                ("providers/soft/iwarp/a.h", '#include "providers/soft/io.h"'),
                ("providers/soft/iwarp/a.h", "#include <dat/udat.h>"),
                ("providers/soft/iwarp/a.h", "#include <sys/socket.h>"),
                ("providers/soft/iwarp/a.h", "auto t = std::chrono::steady_clock::now();"),
                ("providers/soft/io/a.h", '#include "providers/soft/cm/listener.h"'),
                ("providers/soft/io/a.h", '#include "providers/soft/connector.h"'),
                ("providers/soft/cm/a.h", '#include "providers/soft/queue.h"'),
                ("providers/soft/shm/a.h", '#include "providers/soft/io/bell.h"'),
                ("providers/soft/shm/a.h", "#include <thread>"),
                ("providers/verbs/a.cpp", "#include <rdma/rdma_cma.h>"),
                ("providers/verbs/a.cpp", '#include "providers/verbs/rdma_cm/id.h"'),
                ("providers/verbs/a.cpp", "  ::rdma_disconnect(id);"),
                ("providers/verbs/a.h", "struct rdma_cm_id;"),
                ("tests/conformance/a.cpp", '#include "common/fd.h"'),
                ("samples/a.c", '#include "common/fd.h"'),
                ("include/dat/a.h", "#include <sys/epoll.h>"),
                ("dapl/endpoint/a.cpp", '#include "dapl/missing.h"')):
            self.assertEqual(len(self.errors_of(name, line)), 1, f"{name}: {line}")

    def test_allowed_includes(self):
        for name, line in (
                ("common/a.h", "#include <dat/udat.h>"),
                ("dat/a.cpp", '#include "common/fd.h"'),
                ("dat/a.cpp", "#include <dlfcn.h>"),
                ("dapl/endpoint/a.cpp", '#include "dapl/transport/qp.h"'),
                ("dapl/endpoint/a.cpp", '#include "dapl/endpoint/ep.h"'),
                ("dapl/table/a.cpp", '#include "dapl/endpoint/ep.h"'),
                ("providers/soft/a.cpp", '#include "dapl/endpoint/ep.h"'),
                ("dapl/endpoint/a.cpp", '// #include "dat/conf.h"'),
                ("providers/soft/a.cpp", '#include "providers/soft/iwarp/mpa.h"'),
                ("providers/soft/a.cpp", '#include "dapl/transport/qp.h"'),
                ("providers/soft/a.cpp", "#include <sys/epoll.h>"),
                ("providers/soft/a.cpp", '#include "providers/soft/cm/listener.h"'),
                ("providers/soft/cm/a.h", '#include "providers/soft/io/bell.h"'),
                ("providers/soft/cm/a.h", '#include "providers/soft/connector.h"'),
                ("providers/soft/iwarp/a.h", '#include "common/fd.h"'),
                ("providers/verbs/a.cpp", "#include <infiniband/verbs.h>"),
                ("providers/verbs/a.cpp", "request.opcode = IBV_WR_RDMA_READ;  // rdma_cm"),
                ("providers/verbs/a.cpp", 'UDAPL_TRACE("rdma_disconnect");'),
                ("providers/verbs/a.cpp", "request.wr.rdma.rkey = init.max_rdma_read_in;"),
                ("providers/verbs/rdma_cm/a.cpp", "#include <rdma/rdma_cma.h>"),
                ("providers/verbs/rdma_cm/a.cpp", '#include "providers/verbs/rdma_cm/id.h"'),
                ("samples/a.c", '#include "common.h"'),
                ("tests/unit/a.cpp", '#include "dapl/endpoint/ep.h"')):
            self.assertEqual(self.errors_of(name, line), [], f"{name}: {line}")

    def test_members(self):
        self.write("dapl/endpoint/ep.h", "class Ep : public Header {\n  struct Sink {\n  };\n};\n")
        for name, text, errors in (
                ("dapl/endpoint/ep_query.cpp", "void Ep::query() {\n}\n", 0),
                ("dapl/endpoint/ep_sink.cpp", "void Ep::Sink::on_event() {\n}\n", 0),
                ("dapl/table/a.cpp", "Result<Ep*> find() {\n  return Ep::make();\n}\n", 0),
                ("dapl/table/a.cpp", "class Ep {\n};\nvoid Ep::query() {\n}\n", 0),
                ("dapl/table/a.cpp", "std::string text(const Ep& ep) {\n}\n", 0),
                ("dapl/table/a.cpp", "void Ep::query() {\n}\n", 1),
                ("dapl/table/a.cpp", "Ep::~Ep() {\n}\n", 1),
                ("dapl/table/a.cpp", "Result<Ep*> Ep::make(Ia& ia) {\n}\n", 1),
                ("dapl/table/a.cpp", "void Ep::Sink::on_event() {\n}\n", 1),
                ("dapl/table/a.h", "template <class C>\n[[gnu::noinline]] void Ep::post(C& cq) {\n}\n", 1)):
            self.write(name, text)
            self.assertEqual(len(tree.members(self.root)[0]), errors, f"{name}: {text}")
            os.remove(os.path.join(self.root, name))

    def test_text_checks(self):
        self.write("common/place.h", "// see /ho" "me/somebody/notes\n")
        self.write("common/mark.h", "// TO" "DO: the rest\n")
        with open(os.path.join(self.root, "script"), "w", encoding="utf-8") as file:
            file.write("#!/bin/sh\ntrue\n")
        for check, name in ((tree.paths, "common/place.h"), (tree.marks, "common/mark.h"),
                            (tree.licences, "script")):
            errors, _ = check(self.root)
            self.assertEqual([e.split(":")[0] for e in errors], [name], check.__name__)


    def test_sizes(self):
        source, header, test = "dapl/endpoint/long.cpp", "dapl/endpoint/long.h", "tests/unit/long.cpp"
        for name, lines, errors in ((source, 350, 0), (source, 351, 1), (header, 200, 0), (header, 201, 1),
                                    (test, 500, 0)):
            self.write(name, "\n" * (lines - 1))
            self.assertEqual(len(tree.sizes(self.root)[0]), errors, f"{name}: {lines}")
            os.remove(os.path.join(self.root, name))
        for readme, errors in (("\n`long.cpp` is one part.\n\n## Long files\n\nNone.\n", 2),
                               ("\n## Long files\n\n`long.cpp` is one table, `Ep` has tasks.\n", 0),
                               ("\n## Long files\n\n`long.cpp` is one table.\n\n## Tests\n\nof `Ep`\n", 1)):
            self.write(source, "\n" * 400)
            self.write("dapl/endpoint/ep.h", "class Ep {\n};\n")
            for part in ("a", "b", "c", "d"):
                self.write(f"dapl/endpoint/ep_{part}.cpp", f"void Ep::{part}() {{\n}}\n")
            self.write("dapl/endpoint/README.md", readme)
            self.assertEqual(len(tree.sizes(self.root)[0]), errors, readme)

    def test_citations(self):
        self.write("docs/adr/0001-a-decision.md", "\n# 0001. A decision\n")
        self.assertEqual(len(tree.citations(self.root)[0]), 1, "no index")
        self.write("docs/adr/README.md", "\n[0001](0001-a-decision.md)\n")
        self.write("docs/rules.md", "\n## The order of checks, always\n\n```\n# no heading\n```\n")
        for text, errors in (
                ("// docs/rules.md#the-order-of-checks-always, and adr\n// 0001", 0),
                ("// docs/rules.md", 0),
                ("// docs/missing.md", 1),
                ("// docs/rules.md#the-order", 1),
                ("// docs/rules.md#no-heading", 1),
                ("// [adr 0002]", 1),
                ("// in the order of semantics 0.3", 1),
                ("// some-transport\n// 1.12", 1),
                ("// ADR\n// 0003", 1)):
            self.write("common/cites.h", text + "\n")
            self.assertEqual(len(tree.citations(self.root)[0]), errors, text)
        self.write("docs/compatibility.md", "\n## Loading\n\n| | area |\n|---|---|\n| R1 | a |\n| R2 | b |\n")
        for text, errors in (
                ("// docs/compatibility.md R1, docs/compatibility.md\n// R2", 0),
                ("// docs/compatibility.md#loading", 0),
                ("// docs/compatibility.md R3", 1),
                ("// docs/compatibility.md", 1)):
            self.write("common/cites.h", text + "\n")
            self.assertEqual(len(tree.citations(self.root)[0]), errors, text)
        os.remove(os.path.join(self.root, "common/cites.h"))
        self.write("docs/compatibility.md", "\n| | area |\n|---|---|\n| R1 | a |\n| R1 | b |\n| c |\n")
        self.assertEqual(len(tree.citations(self.root)[0]), 2, "rows")
        os.remove(os.path.join(self.root, "docs/compatibility.md"))
        for text, errors in (
                ("[rules](../docs/rules.md#the-order-of-checks-always) [decision](adr/0001-a-decision.md)", 0),
                ("`[code](missing.md)` [outside](https://example.org/a.md)", 0),
                ("[gone](missing.md)", 1),
                ("[here](#no-such-heading)", 1)):
            self.write("docs/page.md", text + "\n")
            self.assertEqual(len(tree.citations(self.root)[0]), errors, text)


class ExportsTest(unittest.TestCase):
    WANTED = {"soname": "libx.so.2", "nodes": {"X_2.0"}, "exports": {("X_2.0", "f")}, "imports": {"dat_g"}}

    def found(self, **changes):
        found = {"soname": "libx.so.2", "nodes": {"X_2.0"}, "exports": {("X_2.0", "f")},
                 "imports": {"dat_g"}, "unversioned": set(), "needed": {"libc.so.6"}, "now": True,
                 "textrel": False, "executable_stack": False}
        found.update(changes)
        return found

    def test_as_listed(self):
        self.assertEqual(exports.compare(self.WANTED, self.found()), [])

    def test_each_difference(self):
        for changes in ({"soname": "libx.so.3"}, {"nodes": {"X_2.0", "Y"}}, {"exports": set()},
                        {"exports": {("X_2.0", "f"), ("X_2.0", "h")}}, {"imports": {"dat_g", "dat_h"}},
                        {"unversioned": {"_init"}}, {"needed": {"libdat2.so.2"}}, {"now": False},
                        {"textrel": True}, {"executable_stack": True}):
            self.assertEqual(len(exports.compare(self.WANTED, self.found(**changes))), 1, changes)


if __name__ == "__main__":
    unittest.main()
