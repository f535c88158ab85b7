// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// Opening and closing through the C API, with real libraries. Names are those of the checklist in
// the semantics reference.
#include <boost/test/unit_test.hpp>
#include <string>
#include <thread>
#include <vector>

#include "tests/loader/loader_env.h"
#include "tests/stub_provider/slots.h"

namespace {

constexpr DAT_RETURN kNameNotRegistered = 0x800A0064U;

DAT_RETURN type_of(DAT_RETURN code) { return DAT_GET_TYPE(code); }

}  // namespace

BOOST_FIXTURE_TEST_SUITE(open_close, LoaderEnv)

BOOST_AUTO_TEST_CASE(reg_conf_quoted_fields) {
  conf(R"("quoted name" "u2.0" nonthreadsafe default ")" + stub("good") +
       R"(" stub.1.0 "good \"a\" \\ # b" "")");
  run([] {
    DAT_IA_HANDLE ia = nullptr;
    BOOST_TEST_REQUIRE(open_ia("quoted name", &ia) == 0U);
    BOOST_TEST(std::string(log_of("good").params) == R"(good "a" \ # b)");
    BOOST_TEST(close_ia(ia) == 0U);
  });
}

BOOST_AUTO_TEST_CASE(reg_conf_duplicate_fallback) {
  conf(entry("ia", "/nowhere/none.so") + entry("ia", stub("unresolved")) +
       entry("ia", stub("no_init")) + entry("ia", stub("good")));
  run([] {
    DAT_IA_HANDLE ia = nullptr;
    BOOST_TEST_REQUIRE(open_ia("ia", &ia) == 0U);
    BOOST_TEST(log_of("good").opens == 1);
    BOOST_TEST(close_ia(ia) == 0U);
  });
}

BOOST_AUTO_TEST_CASE(reg_open_failure_fallback) {
  conf(entry("ia", stub("good"), "open_fails") + entry("ia", stub("second"), "good"));
  run([] {
    DAT_IA_HANDLE ia = nullptr;
    BOOST_TEST_REQUIRE(open_ia("ia", &ia) == 0U);
    BOOST_TEST(log_of("good").finis == 1);
    BOOST_TEST(log_of("second").opens == 1);
    BOOST_TEST(close_ia(ia) == 0U);
  });
}

BOOST_AUTO_TEST_CASE(reg_open_unknown_name) {
  conf(entry("ia", stub("good")));
  run([] {
    int marker = 0;
    DAT_IA_HANDLE ia = &marker;
    BOOST_TEST(open_ia("other", &ia) == kNameNotRegistered);
    BOOST_TEST(open_ia("ia ", &ia) == kNameNotRegistered);
    BOOST_TEST(ia == &marker);
  });
}

BOOST_AUTO_TEST_CASE(reg_open_major_mismatch) {
  conf(entry("ia", stub("good")));
  run([] {
    DAT_IA_HANDLE ia = nullptr;
    BOOST_TEST(open_ia("ia", &ia, 1) == 0x800A0065U);
    BOOST_TEST(open_ia("ia", &ia, 3) == 0x800A0065U);
  });
}

BOOST_AUTO_TEST_CASE(reg_open_minor_too_high) {
  conf(entry("ia", stub("good"), "good", "u2.1"));
  run([] {
    DAT_IA_HANDLE ia = nullptr;
    BOOST_TEST(open_ia("ia", &ia, 2, 2) == 0x800A0066U);
  });
}

BOOST_AUTO_TEST_CASE(reg_open_minor_lower_ok) {
  conf(entry("ia", stub("good"), "good", "u2.1"));
  run([] {
    DAT_IA_HANDLE ia = nullptr;
    BOOST_TEST_REQUIRE(open_ia("ia", &ia, 2, 0) == 0U);
    BOOST_TEST(log_of("good").info.dapl_version_minor == 1U);
    BOOST_TEST(close_ia(ia) == 0U);
    BOOST_TEST(log_of("good").finis == 1);
  });
}

BOOST_AUTO_TEST_CASE(reg_open_threadsafe_mismatch) {
  conf(entry("safe", stub("good"), "good", "u2.0", "threadsafe") + entry("unsafe", stub("good")));
  run([] {
    DAT_IA_HANDLE ia = nullptr;
    BOOST_TEST(open_ia("safe", &ia) == 0x800A0067U);
    BOOST_TEST(open_ia("unsafe", &ia, 2, 0, DAT_TRUE) == 0x800A0067U);
    BOOST_TEST_REQUIRE(open_ia("safe", &ia, 2, 0, DAT_TRUE) == 0U);
    BOOST_CHECK(log_of("good").info.is_thread_safe == DAT_TRUE);
    BOOST_TEST(close_ia(ia) == 0U);
  });
}

BOOST_AUTO_TEST_CASE(reg_open_threadsafe_twins) {
  conf(entry("ia", stub("good"), "good") +
       entry("ia", stub("second"), "good", "u2.0", "threadsafe"));
  run([] {
    DAT_IA_HANDLE unsafe = nullptr, safe = nullptr;
    BOOST_TEST_REQUIRE(open_ia("ia", &unsafe) == 0U);
    BOOST_TEST_REQUIRE(open_ia("ia", &safe, 2, 0, DAT_TRUE) == 0U);
    BOOST_TEST(log_of("good").opens == 1);
    BOOST_TEST(log_of("second").opens == 1);
    BOOST_TEST(close_ia(unsafe) == 0U);
    BOOST_TEST(log_of("good").finis == 1);
    BOOST_TEST(log_of("second").finis == 0);
    BOOST_TEST(close_ia(safe) == 0U);
    BOOST_TEST(log_of("second").finis == 1);
  });
}

BOOST_AUTO_TEST_CASE(reg_open_null_name) {
  conf(entry("ia", stub("good")));
  run([] {
    DAT_IA_HANDLE ia = nullptr;
    DAT_EVD_HANDLE evd = nullptr;
    BOOST_TEST(dat_ia_openv(nullptr, 8, &evd, &ia, 2, 0, DAT_FALSE) == 0x80060025U);
    std::string name = "ia";
    BOOST_TEST(dat_ia_openv(name.data(), 8, &evd, nullptr, 2, 0, DAT_FALSE) == 0x8005000BU);
    BOOST_TEST_REQUIRE(dat_ia_openv(name.data(), 8, nullptr, &ia, 2, 0, DAT_FALSE) == 0U);
    BOOST_TEST(close_ia(ia) == 0U);  // whether the EVD may be null is the provider's business
  });
}

BOOST_AUTO_TEST_CASE(reg_open_long_name) {
  const std::string longest(255, 'x');
  conf(entry(longest, stub("good")));
  run([&] {
    DAT_IA_HANDLE ia = nullptr;
    BOOST_TEST(open_ia(longest + 'x', &ia) == 0x80060025U);
    BOOST_TEST(open_ia(std::string(100000, 'x'), &ia) == 0x80060025U);
    BOOST_TEST_REQUIRE(open_ia(longest, &ia) == 0U);
    BOOST_TEST(close_ia(ia) == 0U);
  });
}

BOOST_AUTO_TEST_CASE(reg_open_library_missing) {
  conf(entry("absent", "/nowhere/none.so") + entry("broken", stub("unresolved")) +
       entry("empty", "") + entry("no-init", stub("no_init")) + entry("text", conf_path()));
  run([] {
    DAT_IA_HANDLE ia = nullptr;
    for (const char* name : {"absent", "broken", "empty", "no-init", "text"}) {
      BOOST_TEST(open_ia(name, &ia) == kNameNotRegistered);
      BOOST_TEST(open_ia(name, &ia) == kNameNotRegistered);
    }
  });
}

BOOST_AUTO_TEST_CASE(reg_open_init_registers_nothing) {
  conf(entry("nothing", stub("good"), "nothing") + entry("wrong", stub("second"), "other_minor"));
  run([] {
    DAT_IA_HANDLE ia = nullptr;
    BOOST_TEST(open_ia("nothing", &ia) == kNameNotRegistered);
    BOOST_TEST(log_of("good").inits == 1);
    BOOST_TEST(log_of("good").finis == 0);
    BOOST_TEST(open_ia("wrong", &ia) == kNameNotRegistered);
    BOOST_TEST(log_of("second").finis == 1);
    BOOST_TEST(open_ia("nothing", &ia) == kNameNotRegistered);
    BOOST_TEST(log_of("good").inits == 2);
  });
}

BOOST_AUTO_TEST_CASE(reg_open_device_error_unchanged) {
  conf(entry("ia", stub("good"), "open_fails"));
  run([] {
    int marker = 0;
    DAT_IA_HANDLE ia = &marker;
    DAT_EVD_HANDLE evd = &marker;
    std::string name = "ia";
    BOOST_TEST(dat_ia_openv(name.data(), 8, &evd, &ia, 2, 0, DAT_FALSE) == kStubOpenFailure);
    BOOST_TEST(ia == &marker);
    BOOST_TEST(evd == &marker);
  });
}

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
    BOOST_TEST(close_ia(nullptr) == 0x8005000BU);
    BOOST_TEST(close_ia(reinterpret_cast<DAT_IA_HANDLE>(1)) == 0x8005000BU);
    BOOST_TEST(close_ia(&unknown) == 0x8005000BU);
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
    // Through the table and back: pz_create of the stub asks for its IA's number.
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
    BOOST_TEST(log_of("good").add_results[1] == 0x80100000U);
    BOOST_TEST(close_ia(ia) == 0U);
  });
}

BOOST_AUTO_TEST_CASE(reg_add_null) {
  conf("");
  run([] {
    DAT_PROVIDER provider{};
    stub_slots::fill_unsupported(provider);
    const DAT_PROVIDER_INFO info = make_info("ia");
    BOOST_TEST(dat_registry_add_provider(nullptr, &info) == 0x80060025U);
    BOOST_TEST(dat_registry_add_provider(&provider, nullptr) == 0x80060026U);
    BOOST_TEST(dat_registry_remove_provider(nullptr, &info) == 0x80060025U);
    BOOST_TEST(dat_registry_remove_provider(&provider, nullptr) == 0x80060026U);
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
    BOOST_TEST(dat_registry_remove_provider(&any, &info) == 0x80110000U);
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

BOOST_AUTO_TEST_CASE(retcode_class_bits) {
  conf(entry("absent", "/nowhere/none.so") + entry("old", stub("good"), "good", "u1.2"));
  run([] {
    DAT_IA_HANDLE ia = nullptr;
    DAT_COUNT count = 0;
    DAT_HA_RELATIONSHIP relationship = DAT_HA_UNKNOWN;
    std::string absent = "absent", unknown = "unknown";
    const DAT_PROVIDER_INFO info = make_info("ia");
    const DAT_PROVIDER provider{};
    // Not dat_strerror, and not what providers return: docs/compatibility.md.
    const DAT_RETURN codes[] = {
        open_ia("absent", &ia),
        open_ia("unknown", &ia),
        open_ia("old", &ia),
        open_ia(std::string(300, 'x'), &ia),
        open_ia("old", nullptr),
        close_ia(nullptr),
        dat_registry_list_providers(0, &count, nullptr),
        dat_registry_list_providers(1, nullptr, nullptr),
        dat_registry_list_providers(1, &count, nullptr),
        dat_registry_add_provider(nullptr, &info),
        dat_registry_remove_provider(&provider, &info),
        dat_registry_providers_related(unknown.data(), absent.data(), &relationship),
        dat_registry_providers_related(nullptr, absent.data(), &relationship),
        dat_registry_providers_related(absent.data(), nullptr, &relationship),
        dat_registry_providers_related(absent.data(), absent.data(), nullptr),
        dats_get_ia_handle(nullptr, &ia),
        dat_ep_free(nullptr),
        dat_pz_create(nullptr, nullptr),
        dat_get_handle_type(nullptr, nullptr),
        dat_extension_op(nullptr, 0),
    };
    for (const DAT_RETURN code : codes) {
      BOOST_TEST((code & 0xC0000000U) == 0x80000000U);
      BOOST_TEST(type_of(code) != 0U);
    }
    BOOST_TEST(dat_registry_providers_related(absent.data(), absent.data(), &relationship) == 0U);
    BOOST_CHECK(relationship == DAT_HA_UNKNOWN);
  });
}

// The tables are checked in tests/unit/dat; here, that the exported function is that one.
BOOST_AUTO_TEST_CASE(strerror_all_types_and_subtypes) {
  run([] {
    const char* major = nullptr;
    const char* minor = nullptr;
    for (const DAT_RETURN type : {0x0U, 0x140000U, 0x170000U, 0x10000000U, 0x3FFF0000U}) {
      BOOST_TEST(dat_strerror(0x80000000U | type, &major, nullptr) == 0U);
      BOOST_TEST(std::string(major).rfind("DAT_", 0) == 0U);
    }
    for (DAT_RETURN subtype = 1; subtype <= 103; ++subtype) {
      BOOST_TEST(dat_strerror(0x80050000U | subtype, &major, &minor) == 0U);
      BOOST_TEST(std::string(minor).rfind("DAT_", 0) == 0U);
    }
  });
}

BOOST_AUTO_TEST_CASE(strerror_success) {
  run([] {
    const char* major = nullptr;
    const char* minor = nullptr;
    BOOST_TEST(dat_strerror(DAT_SUCCESS, &major, &minor) == 0U);
    BOOST_TEST(std::string(major) == "DAT_SUCCESS");
    BOOST_TEST(std::string(minor).empty());
  });
}

BOOST_AUTO_TEST_CASE(strerror_undefined) {
  run([] {
    const char* major = nullptr;
    const char* minor = nullptr;
    BOOST_TEST(dat_strerror(0x80500000U, &major, &minor) == 0x00060000U);
    BOOST_TEST(dat_strerror(0x800A0068U, &major, &minor) == 0x00060000U);
  });
}

BOOST_AUTO_TEST_SUITE_END()
