// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "tools/datperf/wire.h"

#include <boost/test/unit_test.hpp>

using namespace datperf;

namespace {

Hello member() {
  Hello hello;
  hello.role = Role::kMember;
  hello.what = {Measure::kBandwidth, Operation::kFetchAdd, Waiting::kBlock, 4096, 16, 3, 1};
  hello.group = 0x0123456789abcdef;
  hello.address = 0xfedcba9876543210;
  hello.context = 0x80000001;
  return hello;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(wire)

BOOST_AUTO_TEST_CASE(hello_survives_encoding) {
  const auto read = hello_of(encode(member()));
  BOOST_TEST_REQUIRE(read.has_value());
  BOOST_TEST((read->role == Role::kMember));
  BOOST_TEST((read->what == member().what));
  BOOST_TEST(read->group == member().group);
  BOOST_TEST(read->address == member().address);
  BOOST_TEST(read->context == member().context);
}

BOOST_AUTO_TEST_CASE(invitation_survives_encoding) {
  const auto read = invitation_of(encode(Invitation{0xfedcba9876543210, 0x80000001}));
  BOOST_TEST_REQUIRE(read.has_value());
  BOOST_TEST(read->address == 0xfedcba9876543210);
  BOOST_TEST(read->context == 0x80000001U);
}

BOOST_AUTO_TEST_CASE(appended_bytes_are_ignored) {
  const WireBytes bytes = encode(member());
  std::vector<std::byte> padded(bytes.begin(), bytes.end());
  padded.resize(196);
  BOOST_TEST(hello_of(padded).has_value());
}

BOOST_AUTO_TEST_CASE(short_or_foreign_messages_are_rejected) {
  WireBytes bytes = encode(member());
  BOOST_TEST(!hello_of(std::span(bytes).first(bytes.size() - 1)));
  BOOST_TEST(!hello_of({}));
  BOOST_TEST(!invitation_of({}));
  bytes[0] = std::byte{0};
  BOOST_TEST(!hello_of(bytes));
}

BOOST_AUTO_TEST_CASE(messages_beyond_the_limits_are_rejected) {
  const auto refused = [](auto change) {
    Hello hello = member();
    change(hello.what);
    return !hello_of(encode(hello));
  };
  BOOST_TEST(refused([](Case& what) { what.size = 0; }));
  BOOST_TEST(refused([](Case& what) { what.size = kMaxSize + 1; }));
  BOOST_TEST(refused([](Case& what) { what.window = 0; }));
  BOOST_TEST(refused([](Case& what) { what.window = kMaxWindow + 1; }));
  BOOST_TEST(refused([](Case& what) { what.endpoints = kMaxEndpoints + 1; }));
  BOOST_TEST(refused([](Case& what) { what.operation = static_cast<Operation>(4); }));
  BOOST_TEST(refused([](Case& what) { what.measure = static_cast<Measure>(3); }));
  BOOST_TEST(refused([](Case& what) { what.waiting = static_cast<Waiting>(2); }));
  BOOST_TEST(!refused([](Case&) {}));
}

BOOST_AUTO_TEST_SUITE_END()
