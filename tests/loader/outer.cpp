// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// A library that uses libdat2 without a DT_NEEDED entry for it, and is linked after it: its
// constructors run before those of libdat2, its destructors after.
#include "tests/loader/outer.h"

#include <dat/dat_registry.h>
#include <unistd.h>
#include <cstdio>

Answers ask() {
  Answers answers;
  char name[] = "ia";
  DAT_IA_HANDLE ia = nullptr;
  DAT_COUNT count = 0;
  answers.list = dat_registry_list_providers(0, &count, nullptr);
  answers.open = dat_ia_openv(name, 8, nullptr, &ia, 2, 0, DAT_FALSE);
  answers.close = dat_ia_close(ia, DAT_CLOSE_ABRUPT_FLAG);
  return answers;
}

// Uses write, not printf: streams may not exist yet, or not any more.
void print(const char* when, const Answers& answers) {
  char text[128];
  const int length =
      std::snprintf(text, sizeof text, "%s: list 0x%08x, open 0x%08x, close 0x%08x\n", when,
                    answers.list, answers.open, answers.close);
  if (::write(STDOUT_FILENO, text, static_cast<std::size_t>(length)) != length) ::_exit(3);
}

namespace {
[[gnu::constructor]] void first() { print("first", ask()); }
[[gnu::destructor]] void last() { print("last", ask()); }
}  // namespace
