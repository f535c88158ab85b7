// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "boost_init.h"

// This file compiles the framework itself, so that the installed datconform needs no Boost library.
#include <boost/test/included/unit_test.hpp>

#include <iostream>
#include <sstream>
#include <string>

namespace conformance {

namespace ut = boost::unit_test;

void init_boost(int argc, char** argv) {
  std::ostringstream said;
  std::streambuf* const before = std::cerr.rdbuf(said.rdbuf());
  try {
    ut::framework::init([] { return true; }, argc, argv);
  } catch (const ut::framework::nothing_to_test& end) {
    std::cerr.rdbuf(before);
    const std::string text = said.str();
    if (end.m_result_code != 0)
      std::cerr << "datconform: " << text.substr(0, text.find('\n'))
                << "\nTry 'datconform --help'.\n";
    throw;
  } catch (...) {
    std::cerr.rdbuf(before);
    throw;
  }
  std::cerr.rdbuf(before);
  std::cerr << said.str();
}

}  // namespace conformance
