// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "dtest.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <numeric>
#include <random>
#include <thread>

namespace dtest {
namespace {

constexpr std::uint64_t kSendId = 0xaaaa;
constexpr std::uint64_t kReadId = 0x9999;
constexpr std::uint32_t kImmediate = 0x7777;
constexpr unsigned kReads = 4;
constexpr unsigned kPings = 100;
constexpr std::size_t kMessages =
    3;  // the buffer, the end of the Writes (two with immediate data), of the Reads
constexpr std::size_t kPrivateData = 48;

DAT_MEM_PRIV_FLAGS remote_rights() {
  return static_cast<DAT_MEM_PRIV_FLAGS>(unsigned{DAT_MEM_PRIV_REMOTE_READ_FLAG} |
                                         unsigned{DAT_MEM_PRIV_REMOTE_WRITE_FLAG});
}

}  // namespace

std::vector<std::uint32_t> sizes_of(const Options& options) {
  const bool powers = options.increment == 0;
  const std::uint64_t most = powers ? std::bit_ceil(options.length) : options.length;
  std::vector<std::uint32_t> sizes;
  const auto add = [&](std::uint64_t size) {
    if (size <= most) sizes.push_back(static_cast<std::uint32_t>(size));
  };
  // The peer uses the same sizes, so these are the steps of the original program, with its
  // repetitions.
  for (std::uint64_t step = powers ? 1 : options.increment; step <= most;
       step = powers ? step * 2 : step + options.increment) {
    if (step > 4) add(step - 1);
    add(step);
    if (step > 1) add(step + 1);
  }
  return sizes;
}

Transfers::Transfers(const Options& options, const Adapter& adapter)
    : options_(options), adapter_(adapter), room_(std::bit_ceil(options.length)) {
  events_.poll = options.poll;
  inbox_.create(adapter, 3 * room_, remote_rights());
  outbox_.create(adapter, 2 * room_, remote_rights());
  messages_.create(adapter, (kMessages + 1) * RemoteBuffer::kSize);
  const auto most =
      static_cast<std::uint64_t>(std::max<DAT_COUNT>(1, adapter.attributes().max_dto_per_ep - 8));
  const bool extensions = adapter.has(DAT_IB_ATTR_IMMED_DATA);
  connection_.create(
      adapter,
      {.requests = static_cast<DAT_COUNT>(std::min<std::uint64_t>(most, options.signal_rate) + 8),
       .receives = 16,
       .longest = std::max<std::uint64_t>(room_, RemoteBuffer::kSize),
       .extensions = extensions,
       .with_cno = options.cno && !options.poll},
      events_);
}

// ---- Connecting --------------------------------------------------------------------------------

void Transfers::connect(const Record& record) {
  for (std::size_t i = 0; i < kMessages; ++i)
    connection_.post_receive(messages_, i * RemoteBuffer::kSize, RemoteBuffer::kSize, i);
  if (server()) {
    connection_.listen(kConnQual);
    Rendezvous rendezvous(Record::of(adapter_), false);
    say("Server is waiting for client connection to send server info");
    say("Server waiting for connect request on port {:x}", kConnQual);
    static_cast<void>(rendezvous.serve([&] { return connection_.called(); }));
    std::this_thread::sleep_for(std::chrono::seconds(options_.delay_s));
    // The answer is the client's private data, each byte plus one.
    connection_.accept([](std::vector<std::uint8_t> data) {
      data.resize(std::min(data.size(), kPrivateData));
      for (std::uint8_t& byte : data) ++byte;
      return data;
    });
  } else {
    const sockaddr_storage address = server_address(record, options_.common.host);
    say("Server Name: {} ", options_.common.host);
    say("Server Net Address: {} port {:x}", numeric(reinterpret_cast<const sockaddr*>(&address)),
        kConnQual);
    std::vector<std::uint8_t> data(kPrivateData);
    std::iota(data.begin(), data.end(), std::uint8_t{1});
    connection_.connect(address, kConnQual, data);
  }
  say("Waiting for connect response");
  const std::vector<std::uint8_t> data = connection_.established();
  for (std::size_t i = 0; !server() && i < kPrivateData; ++i) {
    if (data.size() <= i || data[i] != i + 2)
      fail(fmt::format("byte {} of the server's private data is wrong", i));
  }
  tools::print("\n");
  say("CONNECTED!\n");
  exchange_buffers();
  const DAT_EP_PARAM param = connection_.query();
  const auto* local = reinterpret_cast<const sockaddr*>(param.local_ia_address_ptr);
  const auto* remote = reinterpret_cast<const sockaddr*>(param.remote_ia_address_ptr);
  say("Query EP: LOCAL addr {} port {:x}", numeric(local), param.local_port_qual);
  say("Query EP: REMOTE addr {} port {:x}", numeric(remote), param.remote_port_qual);
}

void Transfers::exchange_buffers() {
  const RemoteBuffer mine{reinterpret_cast<std::uintptr_t>(inbox_.at(0)), options_.length,
                          inbox_.rmr_context()};
  mine.write(messages_.at(kMessages * RemoteBuffer::kSize));
  say("Send RMR msg to remote: r_key_ctx=0x{:x},va=0x{:x},len=0x{:x}", mine.context, mine.address,
      mine.length);
  connection_.post_send(messages_, kMessages * RemoteBuffer::kSize, RemoteBuffer::kSize, kSendId,
                        DAT_COMPLETION_DEFAULT_FLAG);
  connection_.completed(kSendId, "sending the address of the buffer");
  await_done("receiving the address of the peer's buffer");
  say("remote RMR data arrived!");
  peer_ = RemoteBuffer::read(messages_.at(0));
  say("Received RMR from remote: r_iov: r_key_ctx={:x},va={:x},len=0x{:x}\n", peer_.context,
      peer_.address, peer_.length);
  if (peer_.length != options_.length)
    fail(fmt::format("the peer's buffer has {} bytes, not {}: use the same -b on both sides",
                     peer_.length, options_.length));
}

void Transfers::send_done(std::string_view what) {
  connection_.post_send(messages_, kMessages * RemoteBuffer::kSize, RemoteBuffer::kSize, kSendId,
                        DAT_COMPLETION_DEFAULT_FLAG);
  connection_.completed(kSendId, what);
}

void Transfers::await_done(std::string_view what) {
  connection_.received(next_message_++, RemoteBuffer::kSize, what);
}

std::string Transfers::text(bool of_server, std::string_view what) const {
  return fmt::format("{} RDMA {} data...", of_server ? "server" : "client", what);
}

bool Transfers::begins_with(const std::byte* at, std::string_view text) const {
  // With -w the last byte holds the count of Writes, not text.
  const std::size_t length = options_.length - (options_.streaming ? 1 : 0);
  return std::memcmp(at, text.data(), std::min(length, text.size())) == 0;
}

// ---- RDMA Writes in a row ----------------------------------------------------------------------

void Transfers::post_write(std::uint32_t index, std::uint32_t length, bool last, bool signal) {
  DAT_LMR_TRIPLET local = outbox_.segment(0, length);
  DAT_RMR_TRIPLET remote = peer_.triplet(length);
  const DAT_COMPLETION_FLAGS flags =
      signal ? DAT_COMPLETION_DEFAULT_FLAG : DAT_COMPLETION_SUPPRESS_FLAG;
  if (last && options_.streaming && adapter_.has(DAT_IB_ATTR_IMMED_DATA)) {
    const DAT_DTO_COOKIE id = cookie(index);
    must(dat_ib_post_rdma_write_immed(connection_.ep(), 1, &local, id, &remote, kImmediate, flags),
         "posting an RDMA Write with immediate data");
  } else {
    must(dat_ep_post_rdma_write(connection_.ep(), 1, &local, cookie(index), &remote, flags),
         "posting an RDMA Write");
  }
}

void Transfers::write() {
  const bool immediate = options_.streaming && adapter_.has(DAT_IB_ATTR_IMMED_DATA);
  tools::print("\n {} RDMA WRITE {}DATA with SEND MSG\n\n", ::getpid(), immediate ? "IMM " : "");
  const std::string mine = text(server(), "write");
  std::memcpy(outbox_.at(0), mine.data(), std::min<std::size_t>(options_.length, mine.size()));
  const auto count_of_writes = static_cast<std::byte>(options_.burst - 1);
  if (options_.streaming) *outbox_.at(options_.length - 1) = count_of_writes;
  const bool writes = !options_.one_way || !server();
  const Clock::time_point start = Clock::now();
  for (std::uint32_t i = 0; writes && i < options_.burst; ++i) {
    const bool last = i + 1 == options_.burst;
    const bool signal = last || (i + 1) % options_.signal_rate == 0;
    post_write(i, options_.length, last, signal);
    if (signal) connection_.completed(i, "an RDMA Write");
  }
  const bool peer_writes = !options_.one_way || server();
  if (immediate && peer_writes)
    connection_.received(next_message_++, options_.length, "a Write with immediate data");
  if (!server()) {
    say("Sending RDMA WRITE completion message");
    send_done("reporting the end of the Writes");
  }
  await_done("waiting for the end of the peer's Writes");
  say("inbound rdma_write; send message arrived!");
  write_us_ = us_since(start);
  const std::string its = text(!server(), "write");
  if (peer_writes && !begins_with(inbox_.at(0), its))
    fail(fmt::format("the buffer does not begin with '{}'", its));
  if (peer_writes && options_.streaming && *inbox_.at(options_.length - 1) != count_of_writes)
    fail(
        "the last byte of the buffer is not that of the last Write: use the same -B on both sides");
  if (peer_writes)
    say("{}: RDMA write buffer contains: {}", options_.common.upper_case_role(), its);
  // Store the data that the peer will read before it can learn that it may read.
  const std::string readable = text(server(), "read");
  if (!options_.streaming)
    std::memcpy(inbox_.at(0), readable.data(),
                std::min<std::size_t>(options_.length, readable.size()));
  if (server()) {
    say("Sending RDMA WRITE completion message");
    send_done("reporting the end of the Writes");
  }
  const std::uint32_t count = options_.one_way ? options_.burst : 2 * options_.burst;
  const double each = write_us_ / count;
  results_.push_back(
      fmt::format("RDMA write ({}-direction): Total={:6.2f} usec, itime={:6.2f} us, poll={}, {} x "
                  "{}, {:.2f} MB/sec",
                  options_.one_way ? "uni" : "bi", write_us_, each, events_.polls, count,
                  options_.length, options_.length / each));
}

// ---- RDMA Reads --------------------------------------------------------------------------------

void Transfers::read_once() {
  DAT_LMR_TRIPLET local = outbox_.segment(room_, options_.length);
  DAT_RMR_TRIPLET remote = peer_.triplet(options_.length);
  must(dat_ep_post_rdma_read(connection_.ep(), 1, &local, cookie(kReadId), &remote,
                             DAT_COMPLETION_DEFAULT_FLAG),
       "posting an RDMA Read");
  connection_.completed(kReadId, "an RDMA Read");
}

void Transfers::read() {
  if (!adapter_.has("DAT_IB_RDMA_READ")) return;
  tools::print("\n {} RDMA READ DATA with SEND MSG\n\n", ::getpid());
  const std::string its = text(!server(), "read");
  for (unsigned i = 0; i < kReads; ++i) read_us.push_back(timed([&] { read_once(); }));
  // The peer may not have changed its buffer yet.
  const Clock::time_point deadline = Clock::now() + kPatience;
  while (!begins_with(outbox_.at(room_), its)) {
    if (Clock::now() > deadline) fail(fmt::format("the data read does not begin with '{}'", its));
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    read_once();
  }
  say("Sending RDMA read completion message");
  for (std::size_t i = 0; i < 2; ++i)
    connection_.post_receive(inbox_, (1 + i) * room_, options_.length, i);
  send_done("reporting the end of the Reads");
  say("Waiting for inbound message....");
  await_done("waiting for the end of the peer's Reads");
  say("inbound rdma_read; send message arrived!");
  say("{}: RCV RDMA read buffer contains: {}", options_.common.upper_case_role(), its);
}

double Transfers::reads_total_us() const {
  return std::accumulate(read_us.begin(), read_us.end(), 0.0);
}

// ---- Messages to and fro -----------------------------------------------------------------------

void Transfers::message_pingpong() {
  tools::print("\n {} PING DATA with SEND MSG\n\n", ::getpid());
  constexpr std::byte kClient{0x55};
  constexpr std::byte kServer{0xaa};
  if (read_us.empty()) {
    for (std::size_t i = 0; i < 2; ++i)
      connection_.post_receive(inbox_, (1 + i) * room_, options_.length, i);
  }
  *outbox_.at(0) = server() ? kServer : kClient;
  const auto send = [&] {
    connection_.post_send(outbox_, 0, options_.length, kSendId, DAT_COMPLETION_DEFAULT_FLAG);
    connection_.completed(kSendId, "sending a message");
  };
  const double us = timed([&] {
    for (std::size_t i = 0; i < kPings; ++i) {
      if (!server()) send();
      const std::size_t slot = i % 2;
      connection_.received(slot, options_.length, "receiving a message");
      if (*inbox_.at((1 + slot) * room_) != (server() ? kClient : kServer))
        fail(fmt::format("message {} begins with the wrong byte", i + 1));
      connection_.post_receive(inbox_, (1 + slot) * room_, options_.length, slot);
      if (server()) send();
    }
  });
  const double each = us / (2 * kPings);
  results_.insert(
      results_.begin(),
      fmt::format("Message PingPong: ({} x {}) Total {:.2f} us: latency {:.2f} us, BW {:.2f} MB/s",
                  kPings, options_.length, us, each, options_.length / each));
}

// ---- RDMA Writes to and fro --------------------------------------------------------------------

// Fills in the data of a Write: a pattern with -D, and the number of the Write in the last byte.
void Transfers::fill(std::uint32_t index, std::uint32_t length) {
  if (options_.data_check && !server()) {
    static std::minstd_rand random(1);
    constexpr std::uint8_t kPatterns[] = {0x00, 0xff, 0x55, 0xaa};
    if (index % 5 < 4)
      std::memset(outbox_.at(0), kPatterns[index % 5], length);
    else
      std::generate_n(reinterpret_cast<std::uint8_t*>(outbox_.at(0)), length,
                      [&] { return static_cast<std::uint8_t>(random() >> 8); });
  }
  if (options_.data_check && server()) std::memcpy(outbox_.at(0), inbox_.at(0), length);
  *outbox_.at(length - 1) = static_cast<std::byte>(index + 1);
}

// Polls on the last byte, as the last byte of a Write is stored last.
void Transfers::await_write(std::uint32_t index, std::uint32_t length) {
  auto& last = *reinterpret_cast<std::uint8_t*>(inbox_.at(length - 1));
  const std::atomic_ref<std::uint8_t> arrived(last);
  const auto wanted = static_cast<std::uint8_t>(index + 1);
  const Clock::time_point deadline = Clock::now() + kPatience;
  for (unsigned spins = 1; arrived.load(std::memory_order_acquire) != wanted; ++spins) {
    if (spins % 1024 != 0) continue;
    if (Clock::now() > deadline)
      fail(fmt::format("RDMA Write {} of the peer has not arrived", index + 1));
    std::this_thread::yield();
  }
}

void Transfers::pingpong_of(std::uint32_t length) {
  const double us = timed([&] {
    for (std::uint32_t i = 0; i < options_.burst; ++i) {
      if (server()) await_write(i, length);
      fill(i, length);
      post_write(i, length, false, true);
      connection_.completed(i, "an RDMA Write");
      if (server()) continue;
      await_write(i, length);
      if (options_.data_check && std::memcmp(inbox_.at(0), outbox_.at(0), length) != 0)
        fail(fmt::format("DATA CHECK: RDMA Write {} of {} bytes came back with different bytes",
                         i + 1, length));
    }
  });
  const double each = us / (2.0 * options_.burst);
  tools::print(
      "{}: RDMA write PingPong: ({} x {}) Total {:.2f} us: latency {:.2f} us, BW {:.2f} MB/s\n",
      ::getpid(), options_.burst, length, us, each, length / each);
  tools::flush();
}

void Transfers::write_pingpong() {
  tools::print("\n {} RDMA WRITE PINGPONG with{} DATA CHECK\n\n", ::getpid(),
               options_.data_check ? "" : "out");
  const std::vector<std::uint32_t> sizes =
      options_.all_sizes ? sizes_of(options_) : std::vector<std::uint32_t>{options_.length};
  for (const std::uint32_t size : sizes) pingpong_of(size);
}

// ---- The end -----------------------------------------------------------------------------------

void Transfers::end() {
  connection_.disconnect(!server());
  connection_.free();
  messages_.free();
  outbox_.free();
  inbox_.free();
}

void Transfers::print_results() const {
  for (const std::string& result : results_) tools::print("{}: {}\n\n", ::getpid(), result);
}

}  // namespace dtest
