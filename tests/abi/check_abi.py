#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Check that uDAPL 2.0 headers agree with the interface manifest abi.json.

usage: check_abi.py [include_dir] [--prefix dat2|dat] [--cc CC] [--cxx CXX] ...

A C and a C++ translation unit are generated per header group, one check per
line, and compiled; a diagnostic on a line is a failed check.  A small program
is then built and run to see which arguments the function-like macros pass on.
Prints one line per mismatch and "N passed, N failed" at the end.
Exit status: 0 all passed, 1 something failed, 2 the check could not be made.

Needs Python 3 and a GCC- or Clang-compatible compiler for an LP64 target.
"""
import argparse
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
DIAG = re.compile(r'^(?P<file>[^:\n]+):(?P<line>\d+):(?:\d+:)? (?P<sev>fatal error|error|warning): (?P<msg>.*)$')
ASSERT_FAILED = re.compile(r'static.?assert(ion)? failed|static_assert failed')


def die(msg):
    print('check_abi: ' + msg, file=sys.stderr)
    sys.exit(2)


def unqual(t):
    """Drop a top-level const of a type that is not itself spelled as a pointer."""
    return t[6:] if t.startswith('const ') and not t.rstrip().endswith('*') else t


def plist(params, variadic=False):
    ts = [p['type'] if isinstance(p, dict) else p for p in params]
    if variadic:
        ts.append('...')
    return ', '.join(ts) if ts else 'void'


class Check:
    __slots__ = ('group', 'desc', 'c', 'cxx', 'expr', 'want', 'key', 'early')

    def __init__(self, group, desc, c=None, cxx=None, expr=None, want=None, key=None, early=False):
        self.group, self.desc, self.c, self.cxx = group, desc, c, cxx
        self.expr, self.want, self.key, self.early = expr, want, key, early


class Maker:
    """Turns the manifest into checks."""

    def __init__(self, abi):
        self.abi = abi
        self.out = []

    def add(self, *a, **k):
        self.out.append(Check(*a, **k))

    def value(self, group, desc, expr, want, c=True, cxx=True, cxx_expr=None):
        e2 = cxx_expr or expr
        w = '%dLL' % want
        self.add(group, '%s is %d' % (desc, want),
                 c='_Static_assert((long long)(%s) == %s, "")' % (expr, w) if c else None,
                 cxx='static_assert((long long)(%s) == %s, "")' % (e2, w) if cxx else None,
                 expr=expr if c else None, want=want)

    def same(self, group, desc, a, b, c=True, cxx=True, cxx_a=None):
        self.add(group, desc,
                 c='_Static_assert(__builtin_types_compatible_p(%s, %s), "")' % (a, b) if c else None,
                 cxx='static_assert(std::is_same<%s, %s>::value, "")' % (cxx_a or a, b) if cxx else None)

    def defined(self, group, name):
        pp = '\n#ifndef %s\n#error not defined\n#endif' % name
        self.add(group, 'macro %s is defined' % name, c=pp, cxx=pp, key=name)

    def typedefs(self):
        for d in self.abi['typedefs']:
            n, g = d['name'], d['group']
            self.same(g, 'typedef %s is %s' % (n, d['underlying']), n, d['underlying'])
            if not d.get('incomplete_until'):
                self.value(g, 'size of ' + n, 'sizeof(%s)' % n, d['size'])

    def enums(self):
        for e in self.abi['enums']:
            g, t = e['group'], 'enum ' + e['tag']
            self.value(g, 'size of ' + t, 'sizeof(%s)' % t, e['size'])
            self.add(g, '%s is represented as %s' % (t, e['underlying']),
                     c='_Static_assert((%s)-1 > (%s)0 && sizeof(%s) == sizeof(%s), "")' % (t, t, t, e['underlying']),
                     cxx='static_assert(std::is_same<std::underlying_type<%s>::type, %s>::value, "")' % (t, e['underlying']))
            for x in e['enumerators']:
                self.value(g, '%s: %s' % (t, x['name']), x['name'], x['value'])
                self.add(g, '%s is an enumerator of %s' % (x['name'], t),
                         cxx='static_assert(std::is_same<decltype(%s), %s>::value, "")' % (x['name'], t))

    def fields(self, g, t, fields, path=''):
        for f in fields:
            members = f.get('members')
            p = path + f['name'] if f['name'] else path.rstrip('.')
            if f['name']:
                self.value(g, '%s: offset of %s' % (t, p), 'offsetof(%s, %s)' % (t, p), f['offset'])
                self.value(g, '%s: size of %s' % (t, p), 'sizeof(((%s *)0)->%s)' % (t, p), f['size'])
                if not members:
                    self.same(g, '%s: type of %s is %s' % (t, p, f['type']),
                              '__typeof__(((%s *)0)->%s)' % (t, p), f['type'],
                              cxx_a='decltype(((%s *)0)->%s)' % (t, p))
            if members:
                self.fields(g, t, members, p + '.' if f['name'] else path)

    @staticmethod
    def zero(f, aggregate):
        """An initializer that compiles only if the field is of the expected kind."""
        if f.get('members'):
            return '{ %s }' % Maker.zero(f['members'][0], aggregate)
        return '{0}' if f.get('array') or f['type'] in aggregate else '0'

    def records(self):
        aggregate = {r['typedefs'][0] for r in self.abi['records'] if r['typedefs']}
        aggregate |= {d['name'] for d in self.abi['typedefs'] if d['kind'] == 'record'}
        for r in self.abi['records']:
            g, t = r['group'], '%s %s' % (r['kind'], r['tag'])
            self.value(g, 'size of ' + t, 'sizeof(%s)' % t, r['size'])
            self.value(g, 'alignment of ' + t, '_Alignof(%s)' % t, r['align'], cxx_expr='alignof(%s)' % t)
            self.fields(g, t, r['fields'])
            self.add(g, '%s is trivially copyable and of standard layout in C++' % t,
                     cxx='static_assert(std::is_trivially_copyable<%s>::value && std::is_standard_layout<%s>::value, "")'
                     % (t, t))
            if r['kind'] == 'struct':
                init = ', '.join(self.zero(f, aggregate) for f in r['fields'])
                self.add(g, '%s has exactly %d fields' % (t, len(r['fields'])),
                         c='\nstatic const %s abichk_@ = { %s };' % (t, init))
            else:
                first = r['fields'][0]
                code = '\nstatic void abichk_@(%s v) { %s x = { v }; (void)x; }' % (first['type'], t)
                self.add(g, '%s: a plain initializer sets %s' % (t, first['name']), c=code, cxx=code)

    def functions(self):
        for f in self.abi['functions']:
            n, g = f['name'], f['group']
            args = plist(f['params'], f['variadic'])
            ptr = '\n%s (*abichk_@)(%s) = &%s;' % (f['return'], args, n)
            self.add(g, 'function %s has the type %s (%s)' % (n, f['return'], args), c=ptr, cxx=ptr)
            if f['linkage'] == 'extern':
                self.add(g, 'function %s has C linkage' % n,
                         cxx='\nextern "C" %s (%s)(%s);' % (f['return'], n, args))

    def object_macros(self):
        for m in self.abi['macros_object']:
            n, g, k = m['name'], m['group'], m['kind']
            self.defined(g, n)
            if k == 'integer':
                self.value(g, 'macro ' + n, n, m['value'])
                self.value(g, 'size of macro ' + n, 'sizeof(%s)' % n, m['size'], cxx=False)
                self.value(g, 'macro %s, 1 if signed' % n, '(__typeof__(%s))-1 < (__typeof__(%s))1' % (n, n),
                           int(m['signed']), cxx=False)
                if m['usable_in_if']:
                    pp = '\n#if !((%s) == %d)\n#error wrong or not usable in #if\n#endif' % (n, m['value'])
                    self.add(g, 'macro %s is %d in #if' % (n, m['value']), c=pp, cxx=pp)
            elif k == 'pointer':
                self.same(g, 'macro %s has type %s' % (n, m['type']), '__typeof__(%s)' % n, m['type'])
            elif k == 'string':
                self.value(g, 'size of macro ' + n, 'sizeof(%s)' % n, len(m['value']) + 1)
            elif k == 'empty':
                self.value(g, 'macro %s expands to nothing, string size' % n, 'sizeof(ABICHK_STR(%s))' % n, 1)
            elif k in ('keyword', 'identifier'):
                self.value(g, 'macro %s expands to %s, string size' % (n, m['expands_to']),
                           'sizeof(ABICHK_STR(%s))' % n, len(m['expands_to']) + 1)
            elif k == 'type alias':
                self.same(g, 'macro %s names the type %s' % (n, m['alias_of']), n, m['alias_of'])
            elif k == 'field alias':
                for r in self.abi['records']:
                    for f in r['fields']:
                        if f['name'] == m['alias_of']:
                            self.value(g, 'macro %s names field %s of %s, offset' % (n, f['name'], r['tag']),
                                       'offsetof(%s %s, %s)' % (r['kind'], r['tag'], n), f['offset'])
            elif k == 'function alias':
                self.same(g, 'macro %s has the type of %s' % (n, m['alias_of']),
                          '__typeof__(%s)' % n, '__typeof__(%s)' % m['alias_of'])
            elif k == 'compound literal':
                self.same(g, 'macro %s has type %s' % (n, m['type']), '__typeof__(%s)' % n, m['type'])
            # macro alias: checked at run time; dangling alias, unusable: only checked to be defined

    def function_macros(self):
        for m in self.abi['macros_function']:
            n, g, k = m['name'], m['group'], m['kind']
            self.defined(g, n)
            types = arg_types(m)
            if types is None:
                continue
            names = [n]
            if k == 'extension':
                names += [a['name'] for a in self.abi['macros_object']
                          if a['kind'] == 'macro alias' and a['alias_of'] == n]
            for call in names:
                pars = ', '.join('%s a%d' % (t, i) for i, t in enumerate(types))
                args = ', '.join('a%d' % i for i in range(len(types)))
                code = '\n%sstatic %s abichk_@(%s) { return %s(%s); }'
                self.add(g, 'macro %s takes %d arguments and yields %s' % (call, len(types), m['result']),
                         c=code % ('', m['result'], pars, call, args),
                         cxx=code % ('', m['result'], pars, call, args), key=call)
        g = 'udat'
        for e, w in (('DAT_GET_TYPE(0xC0051234)', 0x00050000), ('DAT_GET_TYPE(0x3FFF0000)', 0x3FFF0000),
                     ('DAT_GET_SUBTYPE(0xC0051234)', 0x1234), ('DAT_GET_SUBTYPE(0xFFFF0000)', 0),
                     ('DAT_IS_WARNING(0x40050000) != 0', 1), ('DAT_IS_WARNING(0xBFFFFFFF)', 0),
                     ('sizeof(UINT64_C(1))', 8), ('UINT64_C(0xFFFFFFFFFFFFFFFF) > 0', 1)):
            self.value(g, e, e, w)
        for e, t in (('DAT_GET_TYPE(1)', 'DAT_UINT32'), ('DAT_GET_SUBTYPE(1)', 'DAT_UINT32'),
                     ('DAT_IS_WARNING(1)', 'DAT_UINT32'), ('DAT_IA_HANDLE_TO_UL((DAT_IA_HANDLE)0)', 'unsigned long'),
                     ('DAT_UL_TO_IA_HANDLE(1UL)', 'DAT_IA_HANDLE')):
            self.same(g, '%s has type %s' % (e, t), '__typeof__(%s)' % e, t)

    def system(self):
        """Checks what applications can use because the DAT headers include it."""
        for g, what, code in (
                ('udat', 'printf and FILE (stdio.h)', 'int (*abichk_@)(FILE *, const char *, ...) = &fprintf;'),
                ('udat', 'NULL, size_t and offsetof (stddef.h)', 'const void *abichk_@a = NULL; size_t abichk_@;'),
                ('udat', 'u_int32_t and ssize_t (sys/types.h)', 'extern u_int32_t abichk_@; extern ssize_t abichk_@s;'),
                ('udat', 'struct sockaddr, AF_INET and SOCK_STREAM (sys/socket.h)',
                 'struct sockaddr abichk_@; int abichk_@f[AF_INET + SOCK_STREAM];'),
                ('registry', 'va_list and va_start (stdarg.h)',
                 'extern va_list abichk_@;\n#ifndef va_start\n#error not defined\n#endif')):
            self.add(g, 'the headers bring in ' + what, c='\n' + code, cxx='\n' + code, early=True)
        pp = '\n#ifndef UINT64_C\n#error not defined\n#endif'
        self.add('udat', 'UINT64_C is there after udat.h alone', c=pp, cxx=pp, early=True)

    def all(self):
        self.system()
        self.typedefs()
        self.enums()
        self.records()
        self.functions()
        self.object_macros()
        self.function_macros()
        return self.out


def arg_types(m):
    """The argument types for calling a function-like macro, or None if it cannot be called."""
    if m['kind'] == 'dispatch':
        return [unqual(t) for t in m['arg_types']]
    if m['kind'] == 'extension':
        if not m['usable']:
            return None
        t = {v['from']: unqual(v['type']) for v in m['varargs']}
        t[m['handle']['from']] = m['handle']['type']
        return [t[p] for p in m['params']]
    if m['name'] == 'dat_ia_open':
        return ['DAT_NAME_PTR', 'DAT_COUNT', 'DAT_EVD_HANDLE *', 'DAT_IA_HANDLE *']
    if m['name'] == 'DAT_HANDLE_TO_PROVIDER':
        return ['DAT_HANDLE']
    return None


class Runner:
    def __init__(self, a, abi, tmp):
        self.a, self.abi, self.tmp = a, abi, tmp
        self.p = a.prefix
        self.passed = 0
        self.failed = []
        self.env = dict(os.environ, LC_ALL='C', LANG='C')
        self.clang = {}
        self.integers = {'int'} | {d['name'] for d in abi['typedefs'] if d['kind'] in ('scalar', 'enum')}

    def fail(self, where, desc, why=''):
        self.failed.append('%s: %s%s' % (where, desc, ' -- ' + why if why else ''))

    def call(self, cmd):
        return subprocess.run(cmd, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=self.env,
                              universal_newlines=True, errors='replace')

    def base(self, lang):
        cmd = list(self.a.cc if lang == 'C' else self.a.cxx)
        if lang not in self.clang:
            r = self.call(cmd + self.a.cflags + ['-dM', '-E', '-x', 'c', os.devnull])
            if r.returncode:
                die('compiler does not work: ' + ' '.join(cmd) + '\n' + r.stderr)
            if not re.search(r'#define __LP64__ 1', r.stdout):
                die('%s does not compile for an LP64 target; abi.json holds LP64 values' % cmd[0])
            self.clang[lang] = '__clang__' in r.stdout
        cmd += ['-std=' + (self.a.std if lang == 'C' else self.a.cxx_std), '-I' + self.a.include_dir]
        cmd += self.a.cflags
        cmd += ['-ferror-limit=0'] if self.clang[lang] else ['-fmax-errors=0', '-ftrack-macro-expansion=0',
                                                            '-fno-diagnostics-show-caret']
        return cmd

    def incs(self, group):
        h = ['<%s/udat.h>' % self.p]
        if group == 'registry':
            h.append('<%s/dat_registry.h>' % self.p)
        elif group in ('ib', 'iw'):
            h += ['<netinet/in.h>', '<%s/dat_%s_extensions.h>' % (self.p, group)]
        elif group == 'all':
            h += ['<netinet/in.h>', '<%s/dat_registry.h>' % self.p, '<%s/dat_ib_extensions.h>' % self.p]
        return ''.join('#include %s\n' % x for x in h)

    def have(self, header):
        return os.path.isfile(os.path.join(self.a.include_dir, self.p, header))

    def write(self, name, text):
        path = os.path.join(self.tmp, name)
        with open(path, 'w') as f:
            f.write(text)
        return path

    # ---- headers as files
    def header_files(self):
        for h in self.abi['headers']:
            if h['installed']:
                if self.have(h['name']):
                    self.passed += 1
                else:
                    self.fail('files', 'header %s/%s exists' % (self.p, h['name']), 'not found')
        if not self.have('udat.h'):
            return False
        root = os.path.realpath(self.a.include_dir) + os.sep
        own = {h['name'] for h in self.abi['headers']}
        src = self.write('deps.c', self.incs('all'))
        r = self.call(self.base('C') + ['-M', src])
        strays = set()
        if r.returncode == 0:
            for dep in r.stdout.replace('\\\n', ' ').split()[1:]:
                real = os.path.realpath(dep)
                if os.path.basename(dep) in own and not real.startswith(root):
                    strays.add(dep)
        if strays:
            for s in sorted(strays):
                self.fail('files', 'headers come from the given include directory', 'got ' + s)
        else:
            self.passed += 1
        for lang, ext in (('C', 'c'), ('C++', 'cc')):
            if lang == 'C++' and not self.a.cxx:
                continue
            again = ''.join('#include <%s/%s>\n' % (self.p, h['name']) for h in self.abi['headers']
                            if h['installed'] and self.have(h['name']))
            src = self.write('twice.' + ext, self.incs('all') * 2 + again * 2 + 'extern int abichk_twice;\n')
            r = self.call(self.base(lang) + ['-fsyntax-only', src])
            if r.returncode:
                errs = [m for m in (DIAG.match(x) for x in r.stderr.splitlines()) if m and 'error' in m.group('sev')]
                why = errs[0].group(0) if errs else r.stderr.strip()[:300]
                self.fail(lang, 'all headers compile together, each included twice', why)
            else:
                self.passed += 1
        return True

    # ---- compile-time checks
    def compile_group(self, lang, group, checks):
        attr = 'c' if lang == 'C' else 'cxx'
        more = '#include <sys/types.h>\n#include <stddef.h>\n#include <stdarg.h>\n'
        if lang == 'C++':
            more += '#include <type_traits>\n'
        more += '#define ABICHK_STR_(...) #__VA_ARGS__\n#define ABICHK_STR(...) ABICHK_STR_(__VA_ARGS__)\n'
        lines = self.incs(group).splitlines()
        at = {}
        order = [i for i, c in enumerate(checks) if c.early] + [None] + [i for i, c in enumerate(checks) if not c.early]
        for i in order:
            if i is None:
                lines += more.splitlines()
                continue
            code = getattr(checks[i], attr)
            if code is None:
                continue
            if code.startswith('\n'):
                body = code[1:].replace('abichk_@', 'abichk_%d' % i).splitlines()
            else:
                body = ['static void abichk_%d(void) { %s; }' % (i, code)]
            for b in body:
                lines.append(b)
                at[len(lines)] = i
        name = '%s_%s.%s' % (group, attr, 'c' if lang == 'C' else 'cc')
        path = self.write(name, '\n'.join(lines) + '\n')
        cmd = self.base(lang) + ['-fsyntax-only']
        if lang == 'C':
            cmd.append('-Wmissing-field-initializers')
        r = self.call(cmd + [path])
        bad = {}
        for line in r.stderr.splitlines():
            m = DIAG.match(line)
            if not m:
                continue
            if os.path.basename(m.group('file')) == name and int(m.group('line')) in at:
                i = at[int(m.group('line'))]
                bad.setdefault(i, m.group('msg'))
            elif 'error' in m.group('sev'):
                self.fail(lang, 'headers of group %s compile' % group, line.strip())
        if r.returncode and not bad and not any(f.startswith(lang) for f in self.failed):
            self.fail(lang, 'headers of group %s compile' % group, r.stderr.strip()[:300])
        done = set(at.values())
        found = self.actual(group, [(i, checks[i].expr) for i in bad
                                    if checks[i].expr and ASSERT_FAILED.search(bad[i])])
        for i in sorted(done):
            if i not in bad:
                self.passed += 1
                continue
            why = bad[i]
            if ASSERT_FAILED.search(why):
                why = 'found %s' % found[i] if i in found else 'differs'
            self.fail('%s %s' % (lang, group), checks[i].desc, why)
        return {checks[i].key for i in bad if checks[i].key}

    def actual(self, group, exprs):
        """The actual values of the failed comparisons, if a program can be run."""
        if not exprs or self.a.no_run:
            return {}
        text = self.incs(group) + '#include <stdio.h>\n#include <stddef.h>\n'
        text += '#define ABICHK_STR_(...) #__VA_ARGS__\n#define ABICHK_STR(...) ABICHK_STR_(__VA_ARGS__)\n'
        text += 'int main(void) {\n'
        for i, e in exprs:
            text += 'printf("%d %%lld\\n", (long long)(%s));\n' % (i, e)
        text += 'return 0; }\n'
        exe = os.path.join(self.tmp, 'actual')
        r = self.call(self.base('C') + [self.write('actual.c', text), '-o', exe])
        if r.returncode:
            return {}
        try:
            r = self.call([exe])
        except OSError:
            return {}
        return {int(x): y for x, y in (z.split() for z in r.stdout.splitlines())}

    # ---- run-time checks of the arguments that macros pass on
    def runtime(self, skip):
        text = self.incs('all')
        text += '''#include <stdio.h>
#include <stdarg.h>
#include <string.h>
#include <stdint.h>
#include <setjmp.h>
#include <signal.h>
static sigjmp_buf env;
static void crash(int sig) { (void)sig; siglongjmp(env, 1); }
#define TRY(what) if (sigsetjmp(env, 1)) result(0, what " (crashed)", 0); else
static int hit, bad, good, nfail;
static int test_id;
#define SAME(a, b) (sizeof(a) == sizeof(b) && memcmp(&(a), &(b), sizeof(a)) == 0)
static void result(int ok, const char *what, int badarg)
{
    if (ok && !badarg) { good++; return; }
    nfail++;
    if (badarg) printf("FAIL %s (argument %d arrives wrong)\\n", what, badarg);
    else printf("FAIL %s\\n", what);
}
static DAT_PROVIDER prov;
static struct { DAT_PROVIDER *first; void *more; } obj = { &prov, 0 };
static DAT_HANDLE seen_handle;
static int seen_op;
'''
        body = []
        init = []
        decode = []
        tid = 0
        for m in self.abi['macros_function']:
            if m['group'] == 'iw' or m['name'] in skip:
                continue
            if m['kind'] == 'dispatch':
                types = [unqual(t) for t in m['arg_types']]
                if 'va_list' in types:
                    continue
                tid += 1
                h = m['params'].index(m['handle'])
                for i, t in enumerate(types):
                    text += 'static %s g%d_%d;\n' % (t, tid, i)
                    if i == h:
                        init.append('g%d_%d = (%s)&obj;' % (tid, i, t))
                    else:
                        init.append('memset(&g%d_%d, %d, sizeof g%d_%d);' % (tid, i, (tid * 7 + i * 3) % 120 + 1, tid, i))
                pars = ', '.join('%s a%d' % (t, i) for i, t in enumerate(types))
                text += 'static DAT_RETURN s%d(%s) { hit = %d;' % (tid, pars, tid)
                for i in range(len(types)):
                    text += ' if (!bad && !SAME(a%d, g%d_%d)) bad = %d;' % (i, tid, i, i + 1)
                text += ' return %d; }\n' % (0x5a00 + tid)
                init.append('prov.%s = s%d;' % (m['slot'], tid))
                args = ', '.join('g%d_%d' % (tid, i) for i in range(len(types)))
                what = '"macro %s calls slot %s of the provider of %s"' % (m['name'], m['slot'], m['handle'])
                body.append('hit = bad = 0; TRY(%s) { DAT_RETURN r = %s(%s); result(hit == %d && r == %d, %s, bad); }'
                            % (what, m['name'], args, tid, 0x5a00 + tid, what))
            elif m['kind'] == 'extension' and m['usable']:
                calls = [m['name']] + [a['name'] for a in self.abi['macros_object']
                                       if a['kind'] == 'macro alias' and a['alias_of'] == m['name']]
                tid += 1
                types = arg_types(m)
                for i, t in enumerate(types):
                    text += 'static %s g%d_%d;\n' % (t, tid, i)
                    init.append('memset(&g%d_%d, %d, sizeof g%d_%d);' % (tid, i, (tid * 7 + i * 3) % 120 + 1, tid, i))
                d = 'case %d:' % tid
                for j, v in enumerate(m['varargs']):
                    t = unqual(v['type'])
                    d += ' { %s v = va_arg(ap, %s); if (!bad && !SAME(v, g%d_%d)) bad = %d; }' % (
                        t, t, tid, m['params'].index(v['from']), m['params'].index(v['from']) + 1)
                decode.append(d + ' break;')
                # once more with floating point where an integer belongs: the macro must convert
                ints = [i for i, t in enumerate(types) if t in self.integers]
                conv = ''.join('g%d_%d = (%s)%d; ' % (tid, i, types[i], tid + i + 2) for i in ints)
                cargs = ', '.join('%d.0' % (tid + i + 2) if i in ints else 'g%d_%d' % (tid, i) for i in range(len(types)))
                hv = '0' if m['handle']['from'] == 'NULL' else 'g%d_%d' % (tid, m['params'].index(m['handle']['from']))
                args = ', '.join('g%d_%d' % (tid, i) for i in range(len(types)))
                for call in calls:
                    if call in skip:
                        continue
                    what = '"macro %s calls dat_extension_op with %s"' % (call, m['op'])
                    body.append('test_id = %d; bad = 0; seen_op = -1; TRY(%s) { DAT_RETURN r = %s(%s); '
                                'result(r == 0x77 && seen_op == (int)%s && seen_handle == (DAT_HANDLE)%s, %s, bad); }'
                                % (tid, what, call, args, m['op'], hv, what))
                    if ints:
                        what = '"macro %s converts its integer arguments"' % call
                        body.append('bad = 0; %s{ DAT_RETURN r = %s(%s); result(r == 0x77, %s, bad); }'
                                    % (conv, call, cargs, what))
        text += '''
DAT_RETURN dat_extension_op(DAT_HANDLE h, DAT_EXTENDED_OP op, ...)
{
    va_list ap;
    seen_handle = h; seen_op = (int)op;
    va_start(ap, op);
    switch (test_id) {
    %s
    default: break;
    }
    va_end(ap);
    return 0x77;
}
static char open_name[] = "x"; static DAT_EVD_HANDLE open_evd; static DAT_IA_HANDLE open_ia;
DAT_RETURN dat_ia_openv(const DAT_NAME_PTR name, DAT_COUNT qlen, DAT_EVD_HANDLE *evd, DAT_IA_HANDLE *ia,
                        DAT_UINT32 major, DAT_UINT32 minor, DAT_BOOLEAN safe)
{
    hit = name == open_name && qlen == 7 && evd == &open_evd && ia == &open_ia && major == 2 && minor == 0 && safe == DAT_FALSE;
    return 0x66;
}
static int strerror_seen;
DAT_RETURN dat_strerror(DAT_RETURN value, const char **major, const char **minor)
{
    strerror_seen = value == 0x80050000u && minor == 0;
    *major = "from dat_strerror";
    return 0x55;
}
int main(void)
{
    const char *s;
    (void)s;
    signal(SIGSEGV, crash);
    signal(SIGBUS, crash);
    signal(SIGILL, crash);
    %s
''' % ('\n    '.join(decode), '\n    '.join(init))
        text += '    ' + '\n    '.join(body) + '\n'
        if 'dat_ia_open' not in skip:
            text += ('    hit = 0; result(dat_ia_open(open_name, 7, &open_evd, &open_ia) == 0x66 && hit, '
                     '"macro dat_ia_open calls dat_ia_openv with version 2.0, not thread safe", 0);\n')
        if 'DAT_HANDLE_TO_PROVIDER' not in skip:
            text += ('    result(DAT_HANDLE_TO_PROVIDER(&obj) == &prov && &DAT_HANDLE_TO_PROVIDER(&obj) == &obj.first, '
                     '"macro DAT_HANDLE_TO_PROVIDER is the first word of the object, as an lvalue", 0);\n')
        text += '''    result(DAT_IA_HANDLE_TO_UL((DAT_IA_HANDLE)(uintptr_t)12345) == 12345, "macro DAT_IA_HANDLE_TO_UL", 0);
    result(DAT_UL_TO_IA_HANDLE(12345) == (DAT_IA_HANDLE)(uintptr_t)12345, "macro DAT_UL_TO_IA_HANDLE", 0);
'''
        for m in self.abi['macros_object']:
            if m['group'] == 'iw' or m['name'] in skip:
                continue
            n = m['name']
            if m['kind'] == 'pointer':
                text += '    result((uintptr_t)(%s) == %d, "macro %s is %d", 0);\n' % (n, m['value'], n, m['value'])
            elif m['kind'] == 'string':
                text += '    result(strcmp(%s, %s) == 0, "macro %s is the string %s", 0);\n' % (
                    n, json.dumps(m['value']), n, m['value'])
            elif m['kind'] in ('keyword', 'identifier'):
                text += '    result(strcmp(ABICHK_STR(%s), "%s") == 0, "macro %s expands to %s", 0);\n' % (
                    n, m['expands_to'], n, m['expands_to'])
            elif m['kind'] == 'compound literal':
                text += ('    { DAT_OS_WAIT_PROXY_AGENT v = %s; result(!v.instance_data && !v.proxy_agent_func, '
                         '"macro %s has null members", 0); }\n' % (n, n))
        for f in self.abi['functions']:
            for b in f.get('behaviour', []):
                cond = 'r == %s' % b['returns']
                if b['message'] is not None:
                    cond += ' && strcmp(s, %s) == 0' % json.dumps(b['message'])
                if b.get('through_dat_strerror'):
                    cond += ' && strerror_seen'
                text += ('    s = "unset"; strerror_seen = 0; { DAT_RETURN r = %s((%s)%s, &s); result(%s, "%s(%s)", 0); }\n'
                         % (f['name'], f['params'][0]['type'], b['value'], cond, f['name'], b['value']))
        text += '    printf("GOOD %d\\n", good);\n    return nfail != 0;\n}\n'
        text = text.replace('static int hit, bad', '#define ABICHK_STR_(...) #__VA_ARGS__\n'
                            '#define ABICHK_STR(...) ABICHK_STR_(__VA_ARGS__)\nstatic int hit, bad', 1)
        exe = os.path.join(self.tmp, 'runtime')
        r = self.call(self.base('C') + ['-w', self.write('runtime.c', text), '-o', exe])
        if r.returncode:
            errs = [x for x in r.stderr.splitlines() if DIAG.match(x) and 'error' in x]
            self.fail('run', 'the program that exercises the macros builds', (errs or [r.stderr.strip()[:300]])[0])
            return
        try:
            r = self.call([exe])
        except OSError as e:
            die('cannot run the generated program (%s); use --no-run when cross-compiling' % e)
        good = re.search(r'^GOOD (\d+)$', r.stdout, re.M)
        if not good:
            self.fail('run', 'the program that exercises the macros finishes', 'exit status %d' % r.returncode)
            return
        self.passed += int(good.group(1))
        for x in re.findall(r'^FAIL (.*)$', r.stdout, re.M):
            self.fail('run', x)

    def go(self):
        checks = Maker(self.abi).all()
        if not self.header_files():
            return
        groups = ['udat', 'registry', 'ib']
        if self.have('dat_iw_extensions.h') and not self.a.no_iw:
            groups.append('iw')
        skip = set()
        for lang in ('C', 'C++'):
            if lang == 'C++' and not self.a.cxx:
                continue
            for g in groups:
                s = self.compile_group(lang, g, [c for c in checks if c.group == g])
                if lang == 'C':
                    skip |= s
        if not self.a.no_run:
            self.runtime(skip)


def main():
    ap = argparse.ArgumentParser(description='Check uDAPL 2.0 headers against abi.json.')
    ap.add_argument('include_dir', nargs='?', default='include', help='directory that holds dat2/ or dat/ (default: include)')
    ap.add_argument('--prefix', default='dat2', choices=['dat2', 'dat'], help='name used in #include <PREFIX/udat.h>')
    ap.add_argument('--cc', default=os.environ.get('CC', 'cc'), help='C compiler command (default: $CC or cc)')
    ap.add_argument('--cxx', default=os.environ.get('CXX', 'c++'), help='C++ compiler command (default: $CXX or c++)')
    ap.add_argument('--std', default='gnu11', help='C dialect (default: gnu11)')
    ap.add_argument('--cxx-std', default='gnu++17', help='C++ dialect (default: gnu++17)')
    ap.add_argument('--cflags', default='', help='more compiler options, as one string')
    ap.add_argument('--abi', default=os.path.join(HERE, 'abi.json'), help='manifest (default: abi.json beside this script)')
    ap.add_argument('--no-cxx', action='store_true', help='C only')
    ap.add_argument('--no-iw', action='store_true', help='do not check dat_iw_extensions.h even if present')
    ap.add_argument('--no-run', action='store_true', help='compile only (cross-compiling)')
    ap.add_argument('--keep', metavar='DIR', help='leave the generated sources in DIR')
    a = ap.parse_args()
    a.cc, a.cxx, a.cflags = shlex.split(a.cc), shlex.split(a.cxx), shlex.split(a.cflags)
    if not shutil.which(a.cc[0]):
        die('no C compiler ' + a.cc[0])
    if a.no_cxx:
        a.cxx = []
    elif not shutil.which(a.cxx[0]):
        die('no C++ compiler %s (use --no-cxx to check C alone)' % a.cxx[0])
    if not os.path.isdir(a.include_dir):
        die('no directory ' + a.include_dir)
    try:
        with open(a.abi) as f:
            abi = json.load(f)
    except (OSError, ValueError) as e:
        die('cannot read %s: %s' % (a.abi, e))
    if a.keep:
        os.makedirs(a.keep, exist_ok=True)
        tmp = a.keep
    else:
        tmp = tempfile.mkdtemp(prefix='check_abi.')
    try:
        r = Runner(a, abi, tmp)
        r.go()
    finally:
        if not a.keep:
            shutil.rmtree(tmp, ignore_errors=True)
    for f in r.failed:
        print('MISMATCH ' + f)
    print('%d passed, %d failed' % (r.passed, len(r.failed)))
    return 1 if r.failed or not r.passed else 0


if __name__ == '__main__':
    sys.exit(main())
