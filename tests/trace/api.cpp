// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// The AIX interface as an application sees it: named attributes of IAs and EPs, trace levels.
#include <dat/dat_trclvl.h>

#include <cstring>
#include <set>
#include <string>

#include <unistd.h>

#include "harness.h"

namespace {

using namespace conformance;

DAT_IA_ATTR attributes(DAT_IA_HANDLE ia) {
  DAT_IA_ATTR attr{};
  REQUIRE_OK(dat_ia_query(ia, nullptr, DAT_IA_FIELD_ALL, &attr, 0, nullptr));
  return attr;
}

std::string value_of(const DAT_IA_ATTR& attr, const char* name) {
  const char* const value = dat_named_attr_value(attr.vendor_attr, attr.num_vendor_attr, name);
  return value == nullptr ? "missing" : value;
}

// Restores both levels when it is destroyed.
class Levels {
 public:
  explicit Levels(DAT_IA_HANDLE ia) : ia_(ia) {
    REQUIRE_OK(dat_trclvl_query(ia, DAT_TRCLVL_DAT, &dat_));
    REQUIRE_OK(dat_trclvl_query(ia, DAT_TRCLVL_DAPL, &dapl_));
  }
  ~Levels() {
    dat_trclvl_modify(ia_, DAT_TRCLVL_DAT, dat_);
    dat_trclvl_modify(ia_, DAT_TRCLVL_DAPL, dapl_);
  }

 private:
  DAT_IA_HANDLE ia_;
  DAT_COUNT dat_ = 0;
  DAT_COUNT dapl_ = 0;
};

// Returns what body() writes to stderr.
template <class Body>
std::string stderr_of(Body&& body) {
  std::string name = "trace_api." + std::string(6, 'X');
  const int file = ::mkstemp(name.data());
  BOOST_REQUIRE(file >= 0);
  ::unlink(name.c_str());
  const int saved = ::dup(STDERR_FILENO);
  ::dup2(file, STDERR_FILENO);
  body();
  ::dup2(saved, STDERR_FILENO);
  ::close(saved);
  std::string text(static_cast<std::size_t>(::lseek(file, 0, SEEK_END)), '\0');
  BOOST_REQUIRE(::pread(file, text.data(), text.size(), 0) == static_cast<ssize_t>(text.size()));
  ::close(file);
  return text;
}

void make_something(DAT_IA_HANDLE ia) {
  DAT_PZ_HANDLE pz = DAT_HANDLE_NULL;
  REQUIRE_OK(dat_pz_create(ia, &pz));
  REQUIRE_OK(dat_pz_free(pz));
}

struct NamedEp {
  Ia ia;
  DAT_EP_HANDLE ep = DAT_HANDLE_NULL;
  NamedEp() {
    REQUIRE_OK(dat_ep_create(ia.handle, DAT_HANDLE_NULL, DAT_HANDLE_NULL, DAT_HANDLE_NULL,
                             DAT_HANDLE_NULL, nullptr, &ep));
  }
  ~NamedEp() { dat_ep_free(ep); }

  DAT_EP_PARAM query() const {
    DAT_EP_PARAM param{};
    REQUIRE_OK(dat_ep_query(ep, DAT_EP_FIELD_ALL, &param));
    return param;
  }
  std::string delayed_ack() const {
    const DAT_EP_ATTR attr = query().ep_attr;
    const char* const value = dat_named_attr_value(
        attr.ep_provider_specific, attr.ep_provider_specific_count, DAT_EP_ATTR_DELAYED_ACK);
    return value == nullptr ? "missing" : value;
  }
  DAT_RETURN modify(const char* name, const char* value) const {
    DAT_NAMED_ATTR named[] = {{name, value}};
    DAT_EP_PARAM param{};
    param.ep_attr.ep_provider_specific_count = 1;
    param.ep_attr.ep_provider_specific = named;
    return dat_ep_modify(
        ep, DAT_EP_FIELD_EP_ATTR_NUM_PROVIDER_ATTR | DAT_EP_FIELD_EP_ATTR_PROVIDER_SPECIFIC_ATTR,
        &param);
  }
};

}  // namespace

BOOST_AUTO_TEST_SUITE(trace_api)

BOOST_AUTO_TEST_CASE(vend_extension_lookup) {
  const Ia ia;
  const DAT_IA_ATTR attr = attributes(ia.handle);
  BOOST_TEST(value_of(attr, "vendor_extension") == "true");
  BOOST_TEST(value_of(attr, "vendor_ext_version") == "1.0");
  const std::string delayed = value_of(attr, "delayed_ack_supported");
  BOOST_TEST((delayed == "true" || delayed == "false"), delayed);
  BOOST_TEST((dat_trclvl_query_func(&attr) != nullptr));
  BOOST_TEST((dat_trclvl_modify_func(&attr) != nullptr));
  std::set<std::string> names;
  for (DAT_COUNT i = 0; i < attr.num_vendor_attr; ++i) {
    BOOST_TEST(names.insert(attr.vendor_attr[i].name).second, attr.vendor_attr[i].name);
    BOOST_TEST(dat_vendor_attr_is_text(attr.vendor_attr[i].name) ==
               (std::string(attr.vendor_attr[i].name).find("debug_") == std::string::npos));
  }
}

BOOST_AUTO_TEST_CASE(both_ways_to_the_levels_are_one) {
  const Ia ia;
  const Levels restore(ia.handle);
  const DAT_IA_ATTR attr = attributes(ia.handle);
  const DAT_TRCLVL_QUERY_FUNC query = dat_trclvl_query_func(&attr);
  const DAT_TRCLVL_MODIFY_FUNC modify = dat_trclvl_modify_func(&attr);
  for (const DAT_COUNT component : {DAT_TRCLVL_DAT, DAT_TRCLVL_DAPL}) {
    for (DAT_COUNT level = TRC_LVL_OFF; level <= 2; ++level) {
      DAT_COUNT queried = -1;
      REQUIRE_OK(modify(ia.handle, component, level));
      REQUIRE_OK(dat_trclvl_query(ia.handle, component, &queried));
      BOOST_TEST(queried == level);
      REQUIRE_OK(dat_trclvl_modify(ia.handle, component, 2 - level));
      REQUIRE_OK(query(ia.handle, component, &queried));
      BOOST_TEST(queried == 2 - level);
    }
  }
}

BOOST_AUTO_TEST_CASE(each_component_has_its_own_level) {
  const Ia ia;
  const Levels restore(ia.handle);
  DAT_COUNT queried = -1;
  REQUIRE_OK(dat_trclvl_modify(ia.handle, DAT_TRCLVL_DAT, 0));
  REQUIRE_OK(dat_trclvl_modify(ia.handle, DAT_TRCLVL_DAPL, 2));
  REQUIRE_OK(dat_trclvl_query(ia.handle, DAT_TRCLVL_DAT, &queried));
  BOOST_TEST(queried == 0);
  REQUIRE_OK(dat_trclvl_query(ia.handle, DAT_TRCLVL_DAPL, &queried));
  BOOST_TEST(queried == 2);
}

BOOST_AUTO_TEST_CASE(bad_arguments_change_nothing) {
  const Ia ia;
  const Levels restore(ia.handle);
  REQUIRE_OK(dat_trclvl_modify(ia.handle, DAT_TRCLVL_DAPL, 0));
  REQUIRE_OK(dat_trclvl_modify(ia.handle, DAT_TRCLVL_DAT, 0));
  const DAT_IA_ATTR attr = attributes(ia.handle);
  DAT_COUNT level = 5;
  int object = 0;
  for (const bool direct : {true, false}) {
    const DAT_TRCLVL_QUERY_FUNC query = direct ? &dat_trclvl_query : dat_trclvl_query_func(&attr);
    const DAT_TRCLVL_MODIFY_FUNC modify =
        direct ? &dat_trclvl_modify : dat_trclvl_modify_func(&attr);
    for (const DAT_COUNT component : {DAT_TRCLVL_DAT, DAT_TRCLVL_DAPL}) {
      CHECK_TYPE(query(DAT_HANDLE_NULL, component, &level), DAT_INVALID_HANDLE);
      CHECK_TYPE(modify(DAT_HANDLE_NULL, component, 1), DAT_INVALID_HANDLE);
      CHECK_TYPE(query(reinterpret_cast<DAT_IA_HANDLE>(4711), component, &level),
                 DAT_INVALID_HANDLE);
      CHECK_TYPE(modify(reinterpret_cast<DAT_IA_HANDLE>(4711), component, 1), DAT_INVALID_HANDLE);
      CHECK_TYPE(query(ia.handle, component, nullptr), DAT_INVALID_PARAMETER);
      for (const DAT_COUNT bad : {-1, 11, 1 << 30})
        CHECK_TYPE(modify(ia.handle, component, bad), DAT_INVALID_PARAMETER);
    }
    for (const DAT_COUNT bad : {-1, 2, 1 << 30}) {
      CHECK_TYPE(query(ia.handle, bad, &level), DAT_INVALID_PARAMETER);
      CHECK_TYPE(modify(ia.handle, bad, 1), DAT_INVALID_PARAMETER);
    }
  }
  CHECK_TYPE(dat_trclvl_query(&object, DAT_TRCLVL_DAT, &level), DAT_INVALID_HANDLE);
  BOOST_TEST(level == 5);
  for (const DAT_COUNT component : {DAT_TRCLVL_DAT, DAT_TRCLVL_DAPL}) {
    REQUIRE_OK(dat_trclvl_query(ia.handle, component, &level));
    BOOST_TEST(level == 0);
  }
}

// Acceptance: changes of the level take effect in the running process.
BOOST_AUTO_TEST_CASE(output_follows_the_level) {
  const Ia ia;
  const Levels restore(ia.handle);
  for (const DAT_COUNT component : {DAT_TRCLVL_DAT, DAT_TRCLVL_DAPL})
    REQUIRE_OK(dat_trclvl_modify(ia.handle, component, TRC_LVL_OFF));
  BOOST_TEST(stderr_of([&] { make_something(ia.handle); }) == "");
  REQUIRE_OK(dat_trclvl_modify(ia.handle, DAT_TRCLVL_DAPL, TRC_LVL_DETAIL));
  const std::string detail = stderr_of([&] { make_something(ia.handle); });
  BOOST_TEST(detail.find("pz_create: called") != std::string::npos, detail);
  BOOST_TEST(detail.find("PZ=0x") != std::string::npos, detail);
  BOOST_TEST(detail.find("pz_free: returns DAT_SUCCESS") != std::string::npos, detail);
  REQUIRE_OK(dat_trclvl_modify(ia.handle, DAT_TRCLVL_DAPL, TRC_LVL_OFF));
  BOOST_TEST(stderr_of([&] { make_something(ia.handle); }) == "");
  REQUIRE_OK(dat_trclvl_modify(ia.handle, DAT_TRCLVL_DAT, TRC_LVL_DETAIL));
  const std::string registry = stderr_of([&] { make_something(ia.handle); });
  BOOST_TEST(registry.find("dat_pz_create: called") != std::string::npos, registry);
  BOOST_TEST(registry.find("dapl") == std::string::npos, registry);
}

BOOST_AUTO_TEST_CASE(vend_delayed_ack_flag) {
  const NamedEp test;
  if (value_of(attributes(test.ia.handle), "delayed_ack_supported") != "true") {
    BOOST_TEST(test.delayed_ack() == "missing");
    CHECK_TYPE(test.modify(DAT_EP_ATTR_DELAYED_ACK, "true"), DAT_INVALID_PARAMETER);
    return;
  }
  BOOST_TEST(test.delayed_ack() == "false");
  REQUIRE_OK(test.modify(DAT_EP_ATTR_DELAYED_ACK, "true"));
  BOOST_TEST(test.delayed_ack() == "true");
  REQUIRE_OK(test.modify(DAT_EP_ATTR_DELAYED_ACK, "FALSE"));
  BOOST_TEST(test.delayed_ack() == "false");
}

BOOST_AUTO_TEST_CASE(ep_attributes_that_do_not_exist) {
  const NamedEp test;
  const std::string before = test.delayed_ack();
  CHECK_TYPE(test.modify("delayed_nack", "true"), DAT_INVALID_PARAMETER);
  CHECK_TYPE(test.modify("Delayed_Ack", "true"), DAT_INVALID_PARAMETER);
  CHECK_TYPE(test.modify(DAT_EP_ATTR_DELAYED_ACK, "maybe"), DAT_INVALID_PARAMETER);
  CHECK_TYPE(test.modify(DAT_EP_ATTR_DELAYED_ACK, ""), DAT_INVALID_PARAMETER);
  CHECK_TYPE(test.modify(DAT_EP_ATTR_DELAYED_ACK, nullptr), DAT_INVALID_PARAMETER);
  CHECK_TYPE(test.modify(nullptr, "true"), DAT_INVALID_PARAMETER);
  DAT_EP_PARAM param{};
  for (const DAT_COUNT count : {-1, 1}) {
    param.ep_attr.ep_provider_specific_count = count;
    CHECK_TYPE(dat_ep_modify(test.ep, DAT_EP_FIELD_EP_ATTR_NUM_PROVIDER_ATTR, &param),
               DAT_INVALID_PARAMETER);
  }
  BOOST_TEST(test.delayed_ack() == before);
}

// Queried attributes can be passed to dat_ep_create, as programs do.
BOOST_AUTO_TEST_CASE(queried_attributes_make_an_ep) {
  const NamedEp test;
  if (test.delayed_ack() != "missing") REQUIRE_OK(test.modify(DAT_EP_ATTR_DELAYED_ACK, "true"));
  const DAT_EP_PARAM param = test.query();
  NamedEp other;
  REQUIRE_OK(dat_ep_free(other.ep));
  REQUIRE_OK(dat_ep_create(other.ia.handle, DAT_HANDLE_NULL, DAT_HANDLE_NULL, DAT_HANDLE_NULL,
                           DAT_HANDLE_NULL, &param.ep_attr, &other.ep));
  BOOST_TEST(other.delayed_ack() == test.delayed_ack());
}

// A connected pair with delayed acknowledgement works like any other, and the attribute can no
// longer be changed.
BOOST_AUTO_TEST_CASE(transfers_with_delayed_ack) {
  Ia probe;
  if (value_of(attributes(probe.handle), "delayed_ack_supported") != "true") return;
  Pair pair;
  DAT_NAMED_ATTR named[] = {{DAT_EP_ATTR_DELAYED_ACK, "true"}};
  DAT_EP_PARAM param{};
  param.ep_attr.ep_provider_specific_count = 1;
  param.ep_attr.ep_provider_specific = named;
  constexpr auto kMask = DAT_EP_FIELD_EP_ATTR_NUM_PROVIDER_ATTR;
  REQUIRE_OK(dat_ep_modify(pair.active.ep, kMask, &param));
  pair.connect();
  CHECK_TYPE(dat_ep_modify(pair.active.ep, kMask, &param), DAT_INVALID_STATE);

  Buffer from(pair.ia, pair.pz, 4096);
  Buffer to(pair.ia, pair.pz, 4096);
  for (std::uint8_t round = 1; round <= 20; ++round) {
    from.fill(round);
    REQUIRE_OK(pair.active.post_write(from, to.remote(4096), round));
    expect_dto(pair.active.request_evd, DAT_DTO_SUCCESS, round);
    BOOST_TEST(to.holds(round, 4096));  // placed, not only sent
  }
  REQUIRE_OK(pair.passive.post_recv(to, 100, 200));
  REQUIRE_OK(pair.active.post_send(from, 100, 100));
  expect_dto(pair.active.request_evd, DAT_DTO_SUCCESS, 100);
  expect_dto(pair.passive.recv_evd, DAT_DTO_SUCCESS, 200);

  // Without delayed acknowledgement this Write may be reported as a success.
  DAT_RMR_TRIPLET nowhere = to.remote(64);
  nowhere.rmr_context ^= 0x5A5A00;
  REQUIRE_OK(pair.active.post_write(from, nowhere, 300));
  expect_dto(pair.active.request_evd, DAT_DTO_ERR_REMOTE_ACCESS, 300);
  expect_connection_end(pair.active.connect_evd);
  expect_connection_end(pair.passive.connect_evd);
}

BOOST_AUTO_TEST_SUITE_END()
