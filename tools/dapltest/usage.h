// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

namespace dapltest {

inline constexpr char kUsage[] =
    R"(dapltest - tests and measures a DAT adapter; command line and wire as the dapltest of dapl2-utils

  dapltest [-T S] [-D adapter] [-n port]                   server, until a quit request
  dapltest -T T -s server [-i iterations] [-t threads] [-w endpoints] [-V] [-P] [-Q] [-r] OPERATION...
                                                           transactions, with -V verified
  dapltest -T P -s server [-i iterations] [-p pipeline] [-m b|p] RR|RW [size [segments]]
                                                           performance of one operation
  dapltest -T L [-w width] [-m maximum] [limit_ia|limit_pz|limit_cno|limit_evd|limit_ep|limit_rsp|
                limit_psp|limit_lmr|limit_rpost|limit_size_lmr]...
                                                           how many objects can be created
  dapltest -T F -f hwconn|endpoint|pz|mem|connmgt|queryinfo [case0 case1 ...]
                                                           whether the API behaves as specified
  dapltest -T Q -s server                                  ends the server
  dapltest -f file                                         arguments from a file; # starts a comment

OPERATION is: client|server SR|RR|RW [size [segments]] [-f], by default 4096 bytes in 1 segment. At least
one SR of each side is needed; -V adds three. -f of an SR: reap its completion with the next receive.

  -D adapter    its name in dat.conf (the first one)    -V   compare all data
  -n port       conn qual of the server (62000)         -P   poll for completions
  -i n          iterations (1000)                       -Q   wait through a CNO
  -t n          threads (1)                             -r   the server listens with RSPs
  -w n          endpoints per thread, or sets (1)       -d   print more
  -R BE|HT|LL|EC|PM  quality of service (BE)
  --json        the result as one JSON object           --timeout s   longest single wait (60)
  --quiet       no progress on long runs                --help        this text
  --version     print the version

Exit status: 0 passed, 1 failed, 2 wrong command line.
)";

}  // namespace dapltest
