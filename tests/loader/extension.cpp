// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// dat_extension_op, step by step as OpenFabrics does it.
#include <boost/test/unit_test.hpp>
#include <string>

#include "tests/loader/loader_env.h"

namespace {

constexpr DAT_RETURN kNotImplemented = 0xBFFF0000U;
constexpr DAT_UINT64 kArgument = 0x1122334455667788U;

}  // namespace

BOOST_FIXTURE_TEST_SUITE(extension, LoaderEnv)

BOOST_AUTO_TEST_CASE(ext_without_extensions) {
  conf(entry("ia", stub("good")));
  run([] {
    DAT_IA_HANDLE ia = nullptr;
    BOOST_TEST_REQUIRE(open_ia("ia", &ia) == 0U);
    BOOST_TEST(dat_extension_op(ia, 5, kArgument) == kNotImplemented);
    BOOST_TEST(dat_extension_op(nullptr, 5, kArgument) ==
               dat_error(DAT_INVALID_HANDLE, DAT_INVALID_HANDLE1));
    BOOST_TEST(log_of("good").extension_op == 0);
    BOOST_TEST(close_ia(ia) == 0U);
  });
}

BOOST_AUTO_TEST_CASE(ext_on_an_ia_and_on_an_object) {
  conf(entry("ia", stub("good"), "extensions"));
  run([] {
    DAT_IA_HANDLE ia = nullptr, pointer = nullptr;
    BOOST_TEST_REQUIRE(open_ia("ia", &ia) == 0U);
    BOOST_TEST(dats_get_ia_handle(ia, &pointer) == 0U);
    BOOST_TEST(dat_extension_op(ia, 5, kArgument) == static_cast<DAT_RETURN>(kArgument));
    const StubLog& log = log_of("good");
    BOOST_TEST(log.extension_op == 5);
    BOOST_TEST(log.extension_handle == pointer);
    BOOST_TEST(log.extension_argument == kArgument);
    StubObject object{static_cast<StubObject*>(pointer)->table, {}};
    BOOST_TEST(dat_extension_op(&object, 6, DAT_UINT64{7}) == 7U);
    BOOST_TEST(log.extension_handle == &object);
    BOOST_TEST(dat_extension_op(nullptr, 5, kArgument) ==
               dat_error(DAT_INVALID_HANDLE, DAT_INVALID_HANDLE1));
    BOOST_TEST(dat_extension_op(reinterpret_cast<DAT_HANDLE>(9), 5, kArgument) ==
               dat_error(DAT_INVALID_HANDLE, DAT_INVALID_HANDLE1));
    BOOST_TEST(close_ia(ia) == 0U);
  });
}

BOOST_AUTO_TEST_CASE(ext_open_and_close_by_name) {
  conf(entry("ia", stub("good"), "good"));
  run([] {
    std::string name = "ia";
    DAT_HANDLE object = nullptr;
    BOOST_TEST_REQUIRE(
        dat_extension_op(nullptr, DAT_OPEN_EXTENSION_BASE, name.data(), &object, kArgument) == 0U);
    BOOST_TEST(object != nullptr);
    const StubLog& log = log_of("good");
    BOOST_TEST(log.extension_handle == name.data());
    BOOST_TEST(log.extension_argument == kArgument);
    BOOST_TEST(log.inits == 1);
    BOOST_TEST(log.finis == 0);
    BOOST_TEST(dat_extension_op(object, 3, DAT_UINT64{9}) == 9U);  // the flag is set now
    BOOST_TEST(dat_extension_op(object, DAT_CLOSE_EXTENSION_BASE) == 0U);
    BOOST_TEST(log.finis == 1);
  });
}

BOOST_AUTO_TEST_CASE(ext_open_keeps_an_ia_of_that_name_alive) {
  conf(entry("ia", stub("good"), "extensions"));
  run([] {
    std::string name = "ia";
    DAT_IA_HANDLE ia = nullptr;
    DAT_HANDLE object = nullptr;
    BOOST_TEST_REQUIRE(open_ia("ia", &ia) == 0U);
    BOOST_TEST_REQUIRE(
        dat_extension_op(nullptr, DAT_OPEN_EXTENSION_BASE, name.data(), &object, kArgument) == 0U);
    BOOST_TEST(close_ia(ia) == 0U);
    BOOST_TEST(log_of("good").finis == 0);
    BOOST_TEST(dat_extension_op(object, DAT_CLOSE_EXTENSION_BASE) == 0U);
    BOOST_TEST(log_of("good").finis == 1);
  });
}

BOOST_AUTO_TEST_CASE(ext_open_failures) {
  conf(entry("ia", stub("good"), "open_fails") + entry("next", "none.so") +
       entry("next", stub("second"), "open_fails") + entry("next", stub("good")));
  run([] {
    std::string unknown = "unknown", name = "ia", next = "next";
    DAT_HANDLE object = nullptr;
    const auto open = [&](char* what) {
      return dat_extension_op(nullptr, DAT_OPEN_EXTENSION_BASE, what, &object, kArgument);
    };
    BOOST_TEST(open(nullptr) == dat_error(DAT_INVALID_HANDLE, DAT_INVALID_ARG3));
    BOOST_TEST(open(unknown.data()) == dat_error(DAT_PROVIDER_NOT_FOUND, DAT_NAME_NOT_REGISTERED));
    BOOST_TEST(open(name.data()) == kStubOpenFailure);
    BOOST_TEST(log_of("good").finis == 1);
    BOOST_TEST_REQUIRE(open(next.data()) == 0U);  // each candidate gets the arguments afresh
    BOOST_TEST(log_of("good").extension_argument == kArgument);
    BOOST_TEST(dat_extension_op(object, DAT_CLOSE_EXTENSION_BASE) == 0U);
  });
}

BOOST_AUTO_TEST_CASE(ext_close_failures) {
  conf(entry("ia", stub("good"), "extensions"));
  run([] {
    DAT_IA_HANDLE ia = nullptr;
    BOOST_TEST(dat_extension_op(nullptr, DAT_CLOSE_EXTENSION_BASE) ==
               dat_error(DAT_INVALID_HANDLE, DAT_INVALID_HANDLE_IA));
    BOOST_TEST_REQUIRE(open_ia("ia", &ia) == 0U);
    BOOST_TEST(dat_extension_op(ia, DAT_CLOSE_EXTENSION_BASE) ==
               dat_error(DAT_INVALID_HANDLE, DAT_INVALID_HANDLE_IA));  // a number
    BOOST_TEST(close_ia(ia) == 0U);
  });
}

BOOST_AUTO_TEST_SUITE_END()
