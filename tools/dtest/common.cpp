// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "common.h"
#include "../names.h"

#include <arpa/inet.h>
#include <dat/dat_diagnosis_extensions.h>
#include <dat/dat_registry.h>
#include <endian.h>
#include <fmt/core.h>
#include <netdb.h>
#include <netinet/in.h>

#include <CLI/CLI.hpp>

#include <array>
#include <cstdlib>

namespace dtest {
namespace {

constexpr DAT_COUNT kMaxAdapters = 256;
constexpr std::size_t kPage = 4096;

}  // namespace

void fail(std::string_view what) {
  tools::flush();
  tools::print(stderr, "{}: {}\n", program, what);
  if (!failed_line.empty()) tools::print("{}\n", failed_line);
  std::exit(tools::ended(program, 1));
}

void must(DAT_RETURN status, std::string_view what) {
  if (status == DAT_SUCCESS) return;
  const char* cause = "";
  dat_last_cause(status, &cause);
  fail(fmt::format("{}: {}", what, cause));
}

void add_common(CLI::App& app, Common& common) {
  app.set_help_flag("--help", "Print this help and exit");
  app.set_version_flag("--version", tools::version_of(program), "Print the version and exit");
  app.failure_message([](const CLI::App*, const CLI::Error& error) {
    return fmt::format("{}: {}\nTry '{} --help'.\n", program, error.what(), program);
  });
  app.add_option("-P", common.provider,
                 "Adapter of dat.conf (the first one; client: the server's)");
  app.add_option("-h", common.host, "Name or address of the server: this is the client");
  app.add_flag("-s", common.as_server, "This is the server, as it is without -h");
  app.add_flag("-v", common.verbose, "Print more");
}

std::optional<int> parse(CLI::App& app, int argc, char** argv) {
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return tools::ended(program, app.exit(error) == 0 ? 0 : 2);
  }
  return std::nullopt;
}

std::string first_adapter() {
  std::vector<DAT_PROVIDER_INFO> infos(kMaxAdapters);
  std::vector<DAT_PROVIDER_INFO*> list;
  for (DAT_PROVIDER_INFO& info : infos) list.push_back(&info);
  DAT_COUNT count = 0;
  must(dat_registry_list_providers(kMaxAdapters, &count, list.data()), "reading dat.conf");
  if (count == 0) fail("dat.conf names no adapter\n  try: `datinfo generate`, or name one with -P");
  return infos.front().ia_name;
}

// ---- Adapter -----------------------------------------------------------------------------------

void Adapter::open(const std::string& name) {
  name_ = name.empty() ? first_adapter() : name;
  open_us = timed([&] {
    must(dat_ia_open(name_.data(), 16, &async_evd_, &ia_),
         fmt::format("opening the adapter '{}'", name_));
  });
  must(dat_ia_query(ia_, nullptr, DAT_IA_FIELD_ALL, &attributes_, DAT_PROVIDER_FIELD_ALL,
                    &provider_),
       "querying the attributes of the adapter");
  pz_create_us = timed([&] { must(dat_pz_create(ia_, &pz_), "creating a protection zone"); });
}

void Adapter::close() {
  pz_free_us = timed([&] { must(dat_pz_free(pz_), "freeing the protection zone"); });
  close_us = timed(
      [&] { must(dat_ia_close(ia_, DAT_CLOSE_GRACEFUL_FLAG), "closing the adapter gracefully"); });
}

std::span<const DAT_NAMED_ATTR> Adapter::all_named() const {
  return {provider_.provider_specific_attr,
          static_cast<std::size_t>(provider_.num_provider_specific_attr)};
}

std::string Adapter::named(std::string_view attribute) const {
  for (const DAT_NAMED_ATTR& one : all_named()) {
    if (attribute == one.name) return one.value;
  }
  return {};
}

void Adapter::check_async(const char* ignored) const {
  DAT_EVENT event{};
  while (dat_evd_dequeue(async_evd_, &event) == DAT_SUCCESS) {
    const std::string name = tools::event_name(event.event_number);
    if (ignored != nullptr && name == ignored) continue;
    fail(fmt::format("asynchronous event of the adapter: {}", name));
  }
}

DAT_EVD_HANDLE Adapter::evd(DAT_COUNT length, DAT_EVD_FLAGS flags, DAT_CNO_HANDLE cno) const {
  DAT_EVD_HANDLE evd = DAT_HANDLE_NULL;
  must(dat_evd_create(ia_, length, cno, flags, &evd), "creating an event dispatcher");
  return evd;
}

// ---- Memory ------------------------------------------------------------------------------------

void Memory::Free::operator()(std::byte* memory) const { std::free(memory); }

void Memory::create(const Adapter& adapter, std::size_t size, DAT_MEM_PRIV_FLAGS more) {
  size_ = (size + kPage - 1) / kPage * kPage;
  bytes_.reset(static_cast<std::byte*>(std::aligned_alloc(kPage, size_)));
  if (bytes_ == nullptr) fail(fmt::format("no memory for a buffer of {} bytes", size_));
  std::memset(bytes_.get(), 0, size_);
  DAT_REGION_DESCRIPTION region{};
  region.for_va = bytes_.get();
  DAT_VLEN length = 0;
  DAT_VADDR start = 0;
  const auto privileges = static_cast<DAT_MEM_PRIV_FLAGS>(
      unsigned{DAT_MEM_PRIV_LOCAL_READ_FLAG} | unsigned{DAT_MEM_PRIV_LOCAL_WRITE_FLAG} | more);
  must(dat_lmr_create(adapter.ia(), DAT_MEM_TYPE_VIRTUAL, region, size_, adapter.pz(), privileges,
                      DAT_VA_TYPE_VA, &lmr_, &lmr_context_, &rmr_context_, &length, &start),
       fmt::format("registering {} bytes", size_));
}

void Memory::free() { must(dat_lmr_free(lmr_), "freeing registered memory"); }

DAT_LMR_TRIPLET Memory::segment(std::size_t offset, std::size_t length) const {
  DAT_LMR_TRIPLET triplet{};
  triplet.virtual_address = reinterpret_cast<std::uintptr_t>(at(offset));
  triplet.segment_length = static_cast<DAT_SEG_LENGTH>(length);
  triplet.lmr_context = lmr_context_;
  return triplet;
}

void RemoteBuffer::write(std::byte* to) const {
  const std::uint64_t first = htobe64(address);
  const std::array<std::uint32_t, 2> rest{htobe32(length), htobe32(context)};
  std::memcpy(to, &first, sizeof first);
  std::memcpy(to + sizeof first, rest.data(), sizeof rest);
}

RemoteBuffer RemoteBuffer::read(const std::byte* from) {
  std::uint64_t first = 0;
  std::array<std::uint32_t, 2> rest{};
  std::memcpy(&first, from, sizeof first);
  std::memcpy(rest.data(), from + sizeof first, sizeof rest);
  return {be64toh(first), be32toh(rest[0]), be32toh(rest[1])};
}

DAT_RMR_TRIPLET RemoteBuffer::triplet(std::size_t size) const {
  DAT_RMR_TRIPLET triplet{};
  triplet.virtual_address = address;
  triplet.segment_length = static_cast<DAT_SEG_LENGTH>(size);
  triplet.rmr_context = context;
  return triplet;
}

// ---- Addresses ---------------------------------------------------------------------------------

std::string numeric(const sockaddr* address) {
  std::array<char, NI_MAXHOST> text{};
  const socklen_t length =
      address->sa_family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
  if (::getnameinfo(address, length, text.data(), text.size(), nullptr, 0, NI_NUMERICHOST) != 0)
    return "?";
  return text.data();
}

unsigned port_of(const sockaddr* address) {
  return ntohs(address->sa_family == AF_INET6
                   ? reinterpret_cast<const sockaddr_in6*>(address)->sin6_port
                   : reinterpret_cast<const sockaddr_in*>(address)->sin_port);
}

std::string family_and_address(const sockaddr* address, unsigned port) {
  return fmt::format("{} - {} port {}", address->sa_family == AF_INET6 ? "AF_INET6" : "AF_INET",
                     numeric(address), port);
}

sockaddr_storage resolve(const std::string& host) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int error = ::getaddrinfo(host.c_str(), nullptr, &hints, &found);
  if (error != 0) fail(fmt::format("{}: {}", host, ::gai_strerror(error)));
  sockaddr_storage address{};
  std::memcpy(&address, found->ai_addr, found->ai_addrlen);
  ::freeaddrinfo(found);
  return address;
}

}  // namespace dtest
