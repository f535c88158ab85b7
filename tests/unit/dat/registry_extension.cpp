// SPDX-License-Identifier: MIT OR GPL-2.0-only
// dat_extension_op: operations that open and close by name keep their provider loaded in between.
#include <boost/test/unit_test.hpp>
#include <cstdarg>
#include <string>

#include "tests/unit/dat/registry_fixture.h"

using namespace registry_test;

namespace {

// An object opened by an extension; its first word is DAT's.
struct Opened {
  const DAT_PROVIDER* table;
};
Opened opened{};

DAT_RETURN extended(DAT_HANDLE, DAT_EXTENDED_OP op, va_list args) {
  if ((op & DAT_OPEN_EXTENSION_BASE) != 0) *va_arg(args, DAT_HANDLE*) = &opened;
  return DAT_SUCCESS;
}

DAT_RETURN extension_op(fake::World& world, DAT_HANDLE handle, int op, ...) {
  va_list args;
  va_start(args, op);
  const DAT_RETURN code = world.registry().extension_op(handle, op, args);
  va_end(args);
  return code;
}

}  // namespace

BOOST_FIXTURE_TEST_SUITE(registry_extension, Fixture)

// The object's table may differ from the registered one, such as the table of the other thread
// safety. Its device name then identifies the provider.
BOOST_AUTO_TEST_CASE(an_object_is_found_by_its_table_or_its_name) {
  for (const bool own_table : {false, true}) {
    fake::Library& lib = world.add_library(0, a);
    lib.finis = 0;
    world.configure(line("ia", 0));
    a.table.handle_extendedop_func = &extended;
    DAT_PROVIDER table = a.table;
    opened.table = own_table ? &table : &a.table;
    std::string name = "ia";
    DAT_HANDLE object = nullptr;
    BOOST_TEST(extension_op(world, nullptr, DAT_OPEN_EXTENSION_BASE, name.data(), &object) == 0U);
    BOOST_TEST(object == &opened);
    BOOST_TEST(lib.finis == 0);
    BOOST_TEST(extension_op(world, object, DAT_CLOSE_EXTENSION_BASE) == 0U);
    BOOST_TEST(lib.finis == 1);
  }
}

// An IA without extensions, in a process that uses those of another one.
BOOST_AUTO_TEST_CASE(an_object_of_a_provider_without_extensions) {
  world.add_library(0, a);
  world.add_library(1, b);
  world.configure(line("ia", 0) + line("other", 1));
  a.table.handle_extendedop_func = &extended;
  opened.table = &a.table;
  std::string name = "ia";
  DAT_HANDLE object = nullptr;
  BOOST_TEST(extension_op(world, nullptr, DAT_OPEN_EXTENSION_BASE, name.data(), &object) == 0U);
  Opened without{&b.table};
  BOOST_TEST(extension_op(world, &without, 5) == kNotImplemented);
  BOOST_TEST(extension_op(world, &without, DAT_CLOSE_EXTENSION_BASE) == kNotImplemented);
  BOOST_TEST(extension_op(world, object, DAT_CLOSE_EXTENSION_BASE) == 0U);
}

BOOST_AUTO_TEST_CASE(a_close_that_the_provider_refuses_keeps_it) {
  fake::Library& lib = world.add_library(0, a);
  world.configure(line("ia", 0));
  static DAT_RETURN close_code;
  close_code = kInUse;
  a.table.handle_extendedop_func = [](DAT_HANDLE handle, DAT_EXTENDED_OP op, va_list args) {
    return (op & DAT_CLOSE_EXTENSION_BASE) != 0 ? close_code : extended(handle, op, args);
  };
  opened.table = &a.table;
  std::string name = "ia";
  DAT_HANDLE object = nullptr;
  BOOST_TEST(extension_op(world, nullptr, DAT_OPEN_EXTENSION_BASE, name.data(), &object) == 0U);
  BOOST_TEST(extension_op(world, object, DAT_CLOSE_EXTENSION_BASE) == kInUse);
  BOOST_TEST(lib.finis == 0);
  close_code = DAT_SUCCESS;
  BOOST_TEST(extension_op(world, object, DAT_CLOSE_EXTENSION_BASE) == 0U);
  BOOST_TEST(lib.finis == 1);
}

BOOST_AUTO_TEST_SUITE_END()
