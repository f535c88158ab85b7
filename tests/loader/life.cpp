// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// The life of a provider: init, registration, opens, closes, fini. Names are those of
// tests/conformance/checklist.cpp.
#include <boost/test/unit_test.hpp>
#include <string>
#include <thread>
#include <vector>

#include "tests/loader/loader_env.h"
#include "tests/stub_provider/slots.h"

namespace {
constexpr DAT_RETURN kNameNotRegistered =
    dat_error(DAT_PROVIDER_NOT_FOUND, DAT_NAME_NOT_REGISTERED);
}  // namespace

BOOST_FIXTURE_TEST_SUITE(life, LoaderEnv)

BOOST_AUTO_TEST_CASE(reg_init_args) {
  conf(entry("ia", stub("good"), "good  two blanks ", "u2.4"));
  run([] {
    DAT_IA_HANDLE ia = nullptr;
    BOOST_TEST_REQUIRE(open_ia("ia", &ia) == 0U);
    const StubLog& log = log_of("good");
    BOOST_TEST(std::string(log.info.ia_name) == "ia");
    BOOST_TEST(log.info.dapl_version_major == 2U);
    BOOST_TEST(log.info.dapl_version_minor == 4U);
    BOOST_CHECK(log.info.is_thread_safe == DAT_FALSE);
    BOOST_TEST(std::string(log.params) == "good  two blanks ");
    BOOST_TEST(log.qlen == 8);
    BOOST_TEST(close_ia(ia) == 0U);
  });
}

BOOST_AUTO_TEST_CASE(reg_init_once) {
  conf(entry("ia", stub("good")));
  run([] {
    DAT_IA_HANDLE first = nullptr, second = nullptr;
    BOOST_TEST_REQUIRE(open_ia("ia", &first) == 0U);
    BOOST_TEST_REQUIRE(open_ia("ia", &second) == 0U);
    BOOST_TEST(log_of("good").inits == 1);
    BOOST_TEST(close_ia(first) == 0U);  // not in the order of the opens
    BOOST_TEST(log_of("good").finis == 0);
    BOOST_TEST(close_ia(second) == 0U);
  });
}

BOOST_AUTO_TEST_CASE(reg_init_once_threads) {
  conf(entry("ia", stub("good")));
  run([] {
    constexpr std::size_t kThreads = 8;
    std::vector<DAT_IA_HANDLE> ias(kThreads);
    std::vector<DAT_RETURN> codes(kThreads, 1U);
    std::vector<std::thread> threads;
    for (std::size_t i = 0; i < kThreads; ++i)
      threads.emplace_back([&, i] { codes[i] = open_ia("ia", &ias[i]); });
    for (std::thread& thread : threads) thread.join();
    for (const DAT_RETURN code : codes) BOOST_TEST(code == 0U);
    BOOST_TEST(log_of("good").inits == 1);
    for (const DAT_IA_HANDLE ia : ias) BOOST_TEST(close_ia(ia) == 0U);
    BOOST_TEST(log_of("good").finis == 1);
  });
}

BOOST_AUTO_TEST_CASE(reg_fini_after_last_close) {
  conf(entry("ia", stub("good")) + entry("other", stub("good")));
  run([] {
    DAT_IA_HANDLE ia = nullptr, again = nullptr, other = nullptr;
    BOOST_TEST_REQUIRE(open_ia("ia", &ia) == 0U);
    BOOST_TEST_REQUIRE(open_ia("ia", &again) == 0U);
    BOOST_TEST_REQUIRE(open_ia("other", &other) == 0U);
    BOOST_TEST(log_of("good").inits == 2);  // once for each name
    BOOST_TEST(close_ia(again) == 0U);
    BOOST_TEST(log_of("good").finis == 0);
    BOOST_TEST(close_ia(ia) == 0U);
    BOOST_TEST(log_of("good").finis == 1);
    BOOST_TEST(close_ia(other) == 0U);
    BOOST_TEST(log_of("good").finis == 2);
  });
}

BOOST_AUTO_TEST_CASE(reg_reopen_after_fini) {
  conf(entry("ia", stub("good")) + entry("forgets", stub("second"), "forgets"));
  run([] {
    DAT_IA_HANDLE ia = nullptr;
    for (int round = 1; round <= 3; ++round) {
      BOOST_TEST_REQUIRE(open_ia("ia", &ia) == 0U);
      BOOST_TEST(close_ia(ia) == 0U);
      BOOST_TEST(log_of("good").inits == round);
      BOOST_TEST(log_of("good").finis == round);
      BOOST_TEST_REQUIRE(open_ia("forgets", &ia) == 0U);
      BOOST_TEST(close_ia(ia) == 0U);
      BOOST_TEST(log_of("second").add_results[0] == 0U);
    }
  });
}

BOOST_AUTO_TEST_CASE(reg_no_fini) {
  conf(entry("ia", stub("no_fini")));
  run([] {
    DAT_IA_HANDLE ia = nullptr;
    for (int round = 0; round < 2; ++round) {
      BOOST_TEST_REQUIRE(open_ia("ia", &ia) == 0U);
      BOOST_TEST(close_ia(ia) == 0U);
    }
    BOOST_TEST(log_of("no_fini").inits == 1);
  });
}

BOOST_AUTO_TEST_CASE(reg_open_failure_releases) {
  conf(entry("ia", stub("good"), "open_fails"));
  run([] {
    DAT_IA_HANDLE ia = nullptr;
    for (int round = 1; round <= 2; ++round) {
      BOOST_TEST(open_ia("ia", &ia) == kStubOpenFailure);
      BOOST_TEST(log_of("good").inits == round);
      BOOST_TEST(log_of("good").finis == round);
    }
  });
}

BOOST_AUTO_TEST_CASE(reg_close_other_version_reported) {
  conf(entry("ia", stub("good"), "lies"));
  run([] {
    DAT_IA_HANDLE ia = nullptr;
    BOOST_TEST_REQUIRE(open_ia("ia", &ia) == 0U);
    BOOST_TEST(close_ia(ia) == 0U);
    BOOST_TEST(log_of("good").finis == 1);
  });
}

BOOST_AUTO_TEST_CASE(reg_close_not_an_ia) {
  conf("");
  run([] {
    int unknown = 0;
    BOOST_TEST(close_ia(nullptr) == dat_error(DAT_INVALID_HANDLE, DAT_INVALID_HANDLE_IA));
    BOOST_TEST(close_ia(reinterpret_cast<DAT_IA_HANDLE>(1)) ==
               dat_error(DAT_INVALID_HANDLE, DAT_INVALID_HANDLE_IA));
    BOOST_TEST(close_ia(&unknown) == dat_error(DAT_INVALID_HANDLE, DAT_INVALID_HANDLE_IA));
  });
}

BOOST_AUTO_TEST_CASE(reg_two_providers_keep_apart) {
  conf(entry("one", stub("good")) + entry("two", stub("second")));
  run([] {
    DAT_IA_HANDLE one = nullptr, two = nullptr;
    BOOST_TEST_REQUIRE(open_ia("one", &one) == 0U);
    BOOST_TEST_REQUIRE(open_ia("two", &two) == 0U);
    BOOST_TEST(log_of("good").opens == 1);
    BOOST_TEST(log_of("second").opens == 1);
    // Through the table and back: pz_create of the stub returns the number of its IA.
    DAT_PZ_HANDLE number = nullptr;
    BOOST_TEST(dat_pz_create(two, &number) == 0U);
    BOOST_TEST(number == two);
    BOOST_TEST(close_ia(one) == 0U);
    BOOST_TEST(close_ia(two) == 0U);
  });
}

BOOST_AUTO_TEST_CASE(reg_add_duplicate) {
  conf(entry("ia", stub("good"), "twice"));
  run([] {
    DAT_IA_HANDLE ia = nullptr;
    BOOST_TEST_REQUIRE(open_ia("ia", &ia) == 0U);
    BOOST_TEST(log_of("good").add_results[0] == 0U);
    BOOST_TEST(log_of("good").add_results[1] == dat_error(DAT_PROVIDER_ALREADY_REGISTERED));
    BOOST_TEST(close_ia(ia) == 0U);
  });
}

BOOST_AUTO_TEST_CASE(reg_add_null) {
  conf("");
  run([] {
    DAT_PROVIDER provider{};
    stub_slots::fill_unsupported(provider);
    const DAT_PROVIDER_INFO info = make_info("ia");
    BOOST_TEST(dat_registry_add_provider(nullptr, &info) ==
               dat_error(DAT_INVALID_PARAMETER, DAT_INVALID_ARG1));
    BOOST_TEST(dat_registry_add_provider(&provider, nullptr) ==
               dat_error(DAT_INVALID_PARAMETER, DAT_INVALID_ARG2));
    BOOST_TEST(dat_registry_remove_provider(nullptr, &info) ==
               dat_error(DAT_INVALID_PARAMETER, DAT_INVALID_ARG1));
    BOOST_TEST(dat_registry_remove_provider(&provider, nullptr) ==
               dat_error(DAT_INVALID_PARAMETER, DAT_INVALID_ARG2));
    BOOST_TEST(dat_registry_remove_provider(&provider, &info) == kNameNotRegistered);
  });
}

BOOST_AUTO_TEST_CASE(reg_remove_in_use) {
  conf(entry("ia", stub("good")));
  run([] {
    DAT_IA_HANDLE ia = nullptr;
    BOOST_TEST_REQUIRE(open_ia("ia", &ia) == 0U);
    const DAT_PROVIDER_INFO info = make_info("ia");
    const DAT_PROVIDER any{};
    BOOST_TEST(dat_registry_remove_provider(&any, &info) == dat_error(DAT_PROVIDER_IN_USE));
    BOOST_TEST(close_ia(ia) == 0U);
  });
}

BOOST_AUTO_TEST_CASE(reg_dynamic_only) {
  conf("");
  run([] {
    static int table_word = 0;
    static const DAT_PROVIDER* object = nullptr;
    DAT_PROVIDER provider{};
    stub_slots::fill_unsupported(provider);
    provider.device_name = "mine";
    object = &provider;
    provider.ia_open_func = [](DAT_NAME_PTR, DAT_COUNT, DAT_EVD_HANDLE*, DAT_IA_HANDLE* ia) {
      *ia = &object;
      return static_cast<DAT_RETURN>(DAT_SUCCESS);
    };
    provider.ia_close_func = [](DAT_IA_HANDLE, DAT_CLOSE_FLAGS) {
      ++table_word;
      return static_cast<DAT_RETURN>(DAT_SUCCESS);
    };
    const DAT_PROVIDER_INFO info = make_info("mine");
    BOOST_TEST(dat_registry_add_provider(&provider, &info) == 0U);
    DAT_IA_HANDLE ia = nullptr;
    BOOST_TEST_REQUIRE(open_ia("mine", &ia) == 0U);
    BOOST_TEST(close_ia(ia) == 0U);  // DAT_SUCCESS, also without an entry in the file
    BOOST_TEST(table_word == 1);
    BOOST_TEST(dat_registry_remove_provider(&provider, &info) == 0U);
    BOOST_TEST(open_ia("mine", &ia) == kNameNotRegistered);
  });
}

BOOST_AUTO_TEST_CASE(reg_self_registering_library) {
  conf(entry("at-load", stub("constructor")));
  run([] {
    DAT_IA_HANDLE ia = nullptr;
    for (int round = 0; round < 2; ++round) {
      BOOST_TEST_REQUIRE(open_ia("at-load", &ia) == 0U);
      BOOST_TEST(close_ia(ia) == 0U);
    }
  });
}

BOOST_AUTO_TEST_CASE(reg_ia_numbers) {
  conf(entry("ia", stub("good")));
  run([] {
    std::vector<DAT_IA_HANDLE> ias(140);
    for (std::size_t i = 0; i < ias.size(); ++i) {
      BOOST_TEST_REQUIRE(open_ia("ia", &ias[i]) == 0U);
      BOOST_TEST(ias[i] == reinterpret_cast<DAT_IA_HANDLE>(i + 1));
    }
    BOOST_TEST(close_ia(ias[6]) == 0U);
    BOOST_TEST_REQUIRE(open_ia("ia", &ias[6]) == 0U);
    BOOST_TEST(ias[6] == reinterpret_cast<DAT_IA_HANDLE>(7));
    for (const DAT_IA_HANDLE ia : ias) BOOST_TEST(close_ia(ia) == 0U);
  });
}

BOOST_AUTO_TEST_SUITE_END()
