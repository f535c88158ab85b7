// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// A program that uses libdat2 before the constructors of libdat2 have run, in main(), and after its
// destructors. Prints the results; process.cpp checks them.
#include "tests/loader/outer.h"

int main() { print("main", ask()); }
