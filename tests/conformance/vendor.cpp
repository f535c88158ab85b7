// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "harness.h"
#include "isolate.h"

#include <strings.h>

#include <cstdlib>
#include <string>

// Vendor attributes: section 10.13 of the checklist (checklist.cpp). A provider need not have them,
// but what it advertises must work.
namespace conformance {

namespace {

using LevelQuery = DAT_RETURN (*)(DAT_IA_HANDLE, DAT_COUNT component, DAT_COUNT* level);
using LevelModify = DAT_RETURN (*)(DAT_IA_HANDLE, DAT_COUNT component, DAT_COUNT level);

constexpr DAT_COUNT kProvider = 1;  // the component; 0 is the registry
constexpr DAT_COUNT kLastLevel = 10;
constexpr const char* kNoExtension = "the IA has no vendor_extension";
constexpr const char* kLevelVariable = "CONFORMANCE_EXPECTED_LEVEL";

// The value of a vendor attribute; null if there is none.
const char* vendor_value(const Ia& ia, const char* name) {
  for (DAT_COUNT i = 0; i < ia.attr.num_vendor_attr; ++i)
    if (std::strcmp(ia.attr.vendor_attr[i].name, name) == 0) return ia.attr.vendor_attr[i].value;
  return nullptr;
}

bool is_true(const char* value) { return value != nullptr && ::strcasecmp(value, "true") == 0; }

// The function whose address is the value of an attribute.
template <class Function>
Function function(const char* value) {
  return reinterpret_cast<Function>(reinterpret_cast<std::uintptr_t>(value));
}

// The functions to which the attributes refer.
struct Levels {
  explicit Levels(const Ia& on)
      : ia(on),
        query(function<LevelQuery>(vendor_value(on, "debug_query"))),
        modify(function<LevelModify>(vendor_value(on, "debug_modify"))) {}
  [[nodiscard]] DAT_COUNT get() const {
    DAT_COUNT level = -1;
    REQUIRE_OK(query(ia, kProvider, &level));
    return level;
  }
  const Ia& ia;
  LevelQuery query;
  LevelModify modify;
};

}  // namespace

BOOST_AUTO_TEST_SUITE(vendor)

BOOST_AUTO_TEST_CASE(vend_delayed_ack_flag) {
  const Ia ia;
  const char* const supported = vendor_value(ia, "delayed_ack_supported");
  const Pz pz = make_pz(ia);
  End end;
  end.create(ia, pz, nullptr);
  for (const char* const wanted : {"true", "false"}) {
    DAT_NAMED_ATTR attribute{"delayed_ack", wanted};
    DAT_EP_PARAM param{};
    param.ep_attr.ep_provider_specific_count = 1;
    param.ep_attr.ep_provider_specific = &attribute;
    const DAT_RETURN rc = dat_ep_modify(
        end.ep,
        DAT_EP_FIELD_EP_ATTR_NUM_PROVIDER_ATTR | DAT_EP_FIELD_EP_ATTR_PROVIDER_SPECIFIC_ATTR,
        &param);
    if (!is_true(supported)) {
      CHECK_TYPE(rc, DAT_INVALID_PARAMETER);
      continue;
    }
    REQUIRE_OK(rc);
    REQUIRE_OK(dat_ep_query(end.ep, DAT_EP_FIELD_ALL, &param));
    BOOST_REQUIRE_EQUAL(param.ep_attr.ep_provider_specific_count, 1);
    BOOST_CHECK_EQUAL(std::string(param.ep_attr.ep_provider_specific[0].value), wanted);
  }
}

BOOST_AUTO_TEST_CASE(vend_extension_lookup) {
  const Ia ia;
  const bool has = is_true(vendor_value(ia, "vendor_extension"));
  const Levels levels(ia);
  BOOST_CHECK_EQUAL(levels.query != nullptr, has);
  BOOST_CHECK_EQUAL(levels.modify != nullptr, has);
  BOOST_CHECK_EQUAL(vendor_value(ia, "vendor_ext_version") != nullptr, has);
}

BOOST_AUTO_TEST_CASE(vend_trace_query_modify) {
  const Ia ia;
  if (skip_unless(is_true(vendor_value(ia, "vendor_extension")), kNoExtension)) return;
  const Levels levels(ia);
  const DAT_COUNT before = levels.get();
  for (DAT_COUNT level = 0; level <= kLastLevel; ++level) {
    REQUIRE_OK(levels.modify(ia, kProvider, level));
    BOOST_CHECK_EQUAL(levels.get(), level);
  }
  REQUIRE_OK(levels.modify(ia, kProvider, before));
  for (const DAT_COUNT level : {-1, kLastLevel + 1, 1 << 30}) {
    CHECK_TYPE(levels.modify(ia, kProvider, level), DAT_INVALID_PARAMETER);
    BOOST_CHECK_EQUAL(levels.get(), before);
  }
  DAT_COUNT level = 0;
  CHECK_TYPE(levels.query(ia, kProvider, nullptr), DAT_INVALID_PARAMETER);
  CHECK_TYPE(levels.query(ia, 7, &level), DAT_INVALID_PARAMETER);
  CHECK_TYPE(levels.query(DAT_HANDLE_NULL, kProvider, &level), DAT_INVALID_HANDLE);
  CHECK_TYPE(levels.modify(DAT_HANDLE_NULL, kProvider, 1), DAT_INVALID_HANDLE);
}

// The libraries read the variable when they start, so the test uses another process.
BOOST_AUTO_TEST_CASE(vend_trace_env) {
  {
    const Ia ia;
    if (skip_unless(is_true(vendor_value(ia, "vendor_extension")), kNoExtension)) return;
  }
  const char* const own = std::getenv("DAPL_TRACE_LEVEL");
  const std::string before = own == nullptr ? "" : own;
  for (const char* const level : {"0", "2"}) {
    ::setenv("DAPL_TRACE_LEVEL", level, 1);
    ::setenv(kLevelVariable, level, 1);
    const Result result =
        run_isolated("vendor_child/level",
                     {"datconform", "--ia=" + options().ia,
                      options().thread_safe == DAT_TRUE ? "--threadsafe" : "--ia=" + options().ia},
                     60);
    BOOST_CHECK_MESSAGE(result.outcome == Outcome::kPassed, "level " << level << result.text);
  }
  ::unsetenv(kLevelVariable);
  if (own == nullptr)
    ::unsetenv("DAPL_TRACE_LEVEL");
  else
    ::setenv("DAPL_TRACE_LEVEL", before.c_str(), 1);
}

BOOST_AUTO_TEST_SUITE_END()

// ---- in the other process ----

BOOST_AUTO_TEST_SUITE(vendor_child, *boost::unit_test::disabled())

BOOST_AUTO_TEST_CASE(level) {
  const char* const expected = std::getenv(kLevelVariable);
  BOOST_REQUIRE(expected != nullptr);
  const Ia ia;
  BOOST_CHECK_EQUAL(Levels(ia).get(), std::atoi(expected));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace conformance
