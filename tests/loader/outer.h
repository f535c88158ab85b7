// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include <dat/udat.h>

// What libdat2 returns for a list, an open and a close.
struct Answers {
  DAT_RETURN list = 1;
  DAT_RETURN open = 1;
  DAT_RETURN close = 1;
};

__attribute__((visibility("default"))) Answers ask();
__attribute__((visibility("default"))) void print(const char* when, const Answers& answers);
