// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// A program that uses libdat2 before its constructors, from its main function and after the
// destructors of libdat2. Prints what came back; process.cpp knows what that must be.
#include "tests/loader/outer.h"

int main() { print("main", ask()); }
