// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// Return codes and their names. Names are those of
// tests/conformance/checklist.cpp.
#include <dat/dat_diagnosis_extensions.h>
#include <dat/dat_ib_extensions.h>

#include <boost/test/unit_test.hpp>
#include <string>

#include "tests/loader/loader_env.h"

BOOST_FIXTURE_TEST_SUITE(results, LoaderEnv)

BOOST_AUTO_TEST_CASE(retcode_class_bits) {
  conf(entry("absent", "/nowhere/none.so") + entry("old", stub("good"), "good", "u1.2"));
  run([] {
    DAT_IA_HANDLE ia = nullptr;
    DAT_COUNT count = 0;
    DAT_HA_RELATIONSHIP relationship = DAT_HA_UNKNOWN;
    std::string absent = "absent", unknown = "unknown";
    const DAT_PROVIDER_INFO info = make_info("ia");
    const DAT_PROVIDER provider{};
    // Not checked: dat_strerror, and codes from providers, see docs/compatibility.md R42.
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
      BOOST_TEST(DAT_GET_TYPE(code) != 0U);
    }
    BOOST_TEST(dat_registry_providers_related(absent.data(), absent.data(), &relationship) == 0U);
    BOOST_CHECK(relationship == DAT_HA_UNKNOWN);
  });
}

// The codes of functions whose effects other tests check.
BOOST_AUTO_TEST_CASE(codes_have_the_right_type) {
  conf(entry("absent", "/nowhere/none.so") + entry("good", stub("good"), "good"));
  run([] {
    DAT_HA_RELATIONSHIP relationship = DAT_HA_UNKNOWN;
    std::string absent = "absent", unknown = "unknown", good = "good";
    const auto related = [&](DAT_NAME_PTR a, DAT_NAME_PTR b) {
      return DAT_GET_TYPE(dat_registry_providers_related(a, b, &relationship));
    };
    BOOST_TEST(related(unknown.data(), absent.data()) == DAT_PROVIDER_NOT_FOUND);
    BOOST_TEST(related(nullptr, absent.data()) == DAT_INVALID_PARAMETER);
    BOOST_TEST(related(absent.data(), nullptr) == DAT_INVALID_PARAMETER);
    BOOST_TEST(DAT_GET_TYPE(dat_registry_providers_related(absent.data(), absent.data(),
                                                           nullptr)) == DAT_INVALID_PARAMETER);
    DAT_IA_HANDLE ia = nullptr;
    BOOST_TEST(DAT_GET_TYPE(dats_get_ia_handle(nullptr, &ia)) == DAT_INVALID_HANDLE);

    const auto count = [](void* counter, const DAT_CONF_RECORD*) { ++*static_cast<int*>(counter); };
    int records = 0;
    BOOST_TEST(dat_registry_read_conf(nullptr, count, &records) == DAT_SUCCESS);
    BOOST_TEST(records > 0);
    BOOST_TEST(DAT_GET_TYPE(dat_registry_read_conf("/nowhere/dat.conf", count, &records)) ==
               DAT_PROVIDER_NOT_FOUND);
    BOOST_TEST(DAT_GET_TYPE(dat_registry_read_conf(nullptr, nullptr, nullptr)) ==
               DAT_INVALID_PARAMETER);
    const char* message = nullptr;
    BOOST_TEST(dat_strerror_ext_status(DAT_IB_OP_ERR, &message) == DAT_SUCCESS);
    BOOST_TEST(dat_strerror_ext_status(static_cast<DAT_IB_STATUS>(3), &message) ==
               DAT_INVALID_PARAMETER);
  });
}

BOOST_AUTO_TEST_CASE(read_conf_visits_entries_in_file_order) {
  conf("bad line\n" + entry("one", stub("good")) +
       "two u2.0 nonthreadsafe nondefault l dapl.2.0 p \"\"\n");
  run([this] {
    struct Seen {
      DAT_CONF_KIND kind;
      DAT_UINT32 line;
      std::string ia_name, text;
    };
    std::vector<Seen> seen;
    const auto keep = [](void* context, const DAT_CONF_RECORD* record) {
      static_cast<std::vector<Seen>*>(context)->push_back(
          {record->kind, record->line, record->ia_name, record->text});
    };
    BOOST_TEST(dat_registry_read_conf(conf_path().c_str(), keep, &seen) == DAT_SUCCESS);
    BOOST_TEST_REQUIRE(seen.size() == 4U);
    const DAT_CONF_KIND kinds[] = {DAT_CONF_FILE, DAT_CONF_ERROR, DAT_CONF_ENTRY, DAT_CONF_UNUSED};
    for (DAT_UINT32 i = 0; i < 4; ++i) {
      BOOST_TEST(static_cast<int>(seen[i].kind) == static_cast<int>(kinds[i]));
      BOOST_TEST(seen[i].line == i);
    }
    BOOST_TEST(seen[0].text.empty());  // it was read
    BOOST_TEST(seen[1].text.starts_with("only 2 of 8 fields"));
    BOOST_TEST(seen[2].ia_name == "one");
    BOOST_TEST(seen[3].ia_name == "two");
  });
}

// The tables are checked in tests/unit/dat; this checks that the exported function uses them.
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

BOOST_AUTO_TEST_CASE(strerror_names_success) {
  run([] {
    const char* major = nullptr;
    const char* minor = nullptr;
    BOOST_TEST(dat_strerror(DAT_SUCCESS, &major, &minor) == 0U);
    BOOST_TEST(std::string(major) == "DAT_SUCCESS");
    BOOST_TEST(std::string(minor).empty());
  });
}

BOOST_AUTO_TEST_CASE(strerror_refuses_undefined_codes) {
  run([] {
    const char* major = nullptr;
    const char* minor = nullptr;
    BOOST_TEST(dat_strerror(0x80500000U, &major, &minor) == 0x00060000U);
    BOOST_TEST(dat_strerror(0x800A0068U, &major, &minor) == 0x00060000U);
  });
}

BOOST_AUTO_TEST_SUITE_END()
