// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// dtestx - the extensions of DAT between two processes: RDMA Writes with immediate data and atomic
// operations. A rewrite: the command line, the protocol and the printed results are those of the
// program of that name in dapl2-utils.
#include "connection.h"
#include "rendezvous.h"

#include <fmt/core.h>
#include <unistd.h>

#include <CLI/CLI.hpp>

#include <algorithm>
#include <atomic>
#include <thread>

namespace dtest {
namespace {

constexpr DAT_CONN_QUAL kLocalQual = 31112;
constexpr std::size_t kMessages = 7;  // the buffer, the immediate data, four steps, one to spare
constexpr std::uint64_t kFirstId = 3;
constexpr std::uint64_t kSendId = 9;
constexpr std::uint64_t kOperationId = 0x9999;

struct Options {
  Common common;
  std::uint32_t length = 256;
  unsigned datagram_eps = 0;
  bool client = false;
  bool counters = false;
  bool query = false;
  bool datagrams = false;
  bool many_eps = false;
};

// The constants of one side. The values are part of the original protocol.
struct Part {
  const char* name;
  const char* text;         // written with the immediate data
  std::uint32_t immediate;  // sent with it
  std::uint64_t before;     // content of its buffer before the peer's compare and swap
  std::uint64_t after;      // and afterwards; the server's compare does not match
  std::uint64_t compare;
  std::uint64_t swap;
  std::uint64_t sum;  // content of its buffer before the peer adds twice
  std::uint64_t add;
};
constexpr Part kClient{
    "Client", "Client written data", 0x7777, 0x54321, 0x54321, 0x12345, 0x98765, 0x100, 0x10};
constexpr Part kServer{"Server", "Server data", 0x1111, 0x12345, 0x98765,
                       0x654321, 0x6789a,       0x10,   0x100};

class Extensions {
 public:
  Extensions(const Options& options, const Adapter& adapter)
      : options_(options),
        adapter_(adapter),
        own_values_(options.common.server() ? kServer : kClient),
        peer_values_(options.common.server() ? kClient : kServer) {
    const auto rights = static_cast<DAT_MEM_PRIV_FLAGS>(unsigned{DAT_MEM_PRIV_REMOTE_READ_FLAG} |
                                                        unsigned{DAT_MEM_PRIV_REMOTE_WRITE_FLAG} |
                                                        unsigned{DAT_IB_MEM_PRIV_REMOTE_ATOMIC});
    inbox_.create(adapter, options.length, rights);
    outbox_.create(adapter, std::max<std::size_t>(options.length, 64));
    messages_.create(adapter, (kMessages + 1) * RemoteBuffer::kSize);
    connection_.create(adapter,
                       {.longest = std::max<std::uint64_t>(options.length, RemoteBuffer::kSize),
                        .extensions = true},
                       events_);
    for (std::size_t i = 0; i < kMessages; ++i)
      connection_.post_receive(messages_, i * RemoteBuffer::kSize, RemoteBuffer::kSize,
                               kFirstId + i);
  }

  void connect(const Record& record) {
    if (options_.common.server()) {
      connection_.listen(kLocalQual);
      Rendezvous rendezvous(Record::of(adapter_), true);
      tools::print("{} Server - Client: waiting to snd addr\n", ::getpid());
      tools::flush();
      peer_is_ours_ = rendezvous.serve([&] { return connection_.called(); }).ours;
      connection_.accept([](std::vector<std::uint8_t>) { return std::vector<std::uint8_t>{}; });
      tools::print("Server accepted CR on EP[0]={}\n", connection_.ep());
    } else {
      peer_is_ours_ = record.ours;
      const sockaddr_storage address = server_address(record, options_.common.host);
      tools::print("Remote Server Name: {} \nRemote Server Net Address: {}\n", options_.common.host,
                   numeric(reinterpret_cast<const sockaddr*>(&address)));
      tools::print("Client EP_L[0]={} connect to EP_R[0]\n", connection_.ep());
      const std::vector<std::uint8_t> first_ep(4);
      connection_.connect(address, kLocalQual, first_ep);
    }
    static_cast<void>(connection_.established());
    tools::print("Connected! 1 endpoints\n");
    exchange_buffers();
  }

  void write_immediate() {
    tools::print("\nDoing RDMA WRITE IMMEDIATE DATA\n");
    const std::string_view text = own_values_.text;
    std::memcpy(outbox_.at(0), text.data(), std::min<std::size_t>(options_.length, text.size()));
    DAT_LMR_TRIPLET local = outbox_.segment(0, options_.length);
    DAT_RMR_TRIPLET remote = peer_.triplet(options_.length);
    must(dat_ib_post_rdma_write_immed(connection_.ep(), 1, &local, cookie(kOperationId), &remote,
                                      own_values_.immediate, DAT_COMPLETION_DEFAULT_FLAG),
         "posting an RDMA Write with immediate data");
    connection_.completed(kOperationId, "an RDMA Write with immediate data");
    const DAT_EVENT event = connection_.received(next_message_++, options_.length,
                                                 "the peer's Write with immediate data");
    const auto& data =
        *reinterpret_cast<const DAT_IB_EXTENSION_EVENT_DATA*>(event.event_extension_data);
    tools::print("{} received immed_data=0x{:x}\n", own_values_.name, data.val.immed.data);
    const std::string_view wanted = peer_values_.text;
    const bool right = std::memcmp(inbox_.at(0), wanted.data(),
                                   std::min<std::size_t>(options_.length, wanted.size())) == 0;
    tools::print("rdma buffer {} contains: {}\n", static_cast<const void*>(inbox_.at(0)),
                 right ? wanted : "something else");
    verdict("RDMA_WRITE_WITH_IMMEDIATE_DATA",
            right && data.val.immed.data == peer_values_.immediate);
  }

  void compare_and_swap() {
    tools::print("\nDoing CMP and SWAP\n");
    buffer().store(own_values_.before);
    step(1);
    const char* who = options_.common.server() ? "svr" : "cli";
    tools::print("dtx {} - starting cmp_swap\n", who);
    const std::uint64_t original = atomic(
        [&](DAT_LMR_TRIPLET* local, DAT_RMR_TRIPLET* remote) {
          return dat_ib_post_cmp_and_swap(connection_.ep(), own_values_.compare, own_values_.swap,
                                          local, cookie(kOperationId), remote,
                                          DAT_COMPLETION_DEFAULT_FLAG);
        },
        "comparing and swapping");
    tools::print("dtx {} - done cmp_swap, chk status\n", who);
    step(2);
    tools::print("{} got original data        = {:x}, expected 0x{:x}\n", own_values_.name,
                 original, peer_values_.before);
    tools::print("{} final result (on {}) = {:x}, expected 0x{:x}\n", peer_values_.name,
                 own_values_.name, buffer().load(), own_values_.after);
    verdict("CMP_SWAP", original == peer_values_.before && buffer().load() == own_values_.after);
  }

  void fetch_and_add() {
    tools::print("\nDoing FETCH and ADD\n");
    buffer().store(own_values_.sum);
    step(1);
    bool right = true;
    for (unsigned i = 0; i < 2; ++i) {
      const std::uint64_t original = atomic(
          [&](DAT_LMR_TRIPLET* local, DAT_RMR_TRIPLET* remote) {
            return dat_ib_post_fetch_and_add(connection_.ep(), own_values_.add, local,
                                             cookie(kOperationId), remote,
                                             DAT_COMPLETION_DEFAULT_FLAG);
          },
          "fetching and adding");
      const std::uint64_t wanted = peer_values_.sum + i * own_values_.add;
      right = right && original == wanted;
      tools::print("{} got original data         = {:x}, expected 0x{:x}\n", own_values_.name,
                   original, wanted);
      // The original program waits for a second before it adds again.
      if (!peer_is_ours_) step(1);
    }
    if (peer_is_ours_) step(1);
    const std::uint64_t wanted = own_values_.sum + 2 * peer_values_.add;
    tools::print("{} final result (on {})  = {:x}, expected 0x{:x}\n", peer_values_.name,
                 own_values_.name, buffer().load(), wanted);
    verdict("FETCH_ADD", right && buffer().load() == wanted);
  }

  void end() {
    connection_.disconnect(!options_.common.server());
    connection_.free();
    messages_.free();
    outbox_.free();
    inbox_.free();
  }

 private:
  std::atomic_ref<std::uint64_t> buffer() {
    return std::atomic_ref(*reinterpret_cast<std::uint64_t*>(inbox_.at(0)));
  }

  void send_message(std::string_view what) {
    connection_.post_send(messages_, kMessages * RemoteBuffer::kSize, RemoteBuffer::kSize, kSendId,
                          DAT_COMPLETION_DEFAULT_FLAG);
    connection_.completed(kSendId, what);
  }

  void exchange_buffers() {
    const RemoteBuffer mine{reinterpret_cast<std::uintptr_t>(inbox_.at(0)), options_.length,
                            inbox_.rmr_context()};
    mine.write(messages_.at(kMessages * RemoteBuffer::kSize));
    tools::print("Send RMR message: r_key_ctx=0x{:x},va={:x},len=0x{:x}\n", mine.context,
                 mine.address, mine.length);
    send_message("sending the address of the buffer");
    connection_.received(next_message_++, RemoteBuffer::kSize,
                         "receiving the address of the peer's buffer");
    peer_ = RemoteBuffer::read(messages_.at(0));
    tools::print("Recv RMR message: r_key_ctx={:x},va={:x}, len=0x{:x} on EP={}\n", peer_.context,
                 peer_.address, peer_.length, connection_.ep());
    if (peer_.length != options_.length)
      fail(fmt::format("the peer's buffer has {} bytes, not {}: use the same -b on both sides",
                       peer_.length, options_.length));
  }

  // Waits until the peer has finished its part of the step, too. The original program sleeps
  // instead.
  void step(unsigned seconds) {
    if (!peer_is_ours_) {
      std::this_thread::sleep_for(std::chrono::seconds(seconds));
      return;
    }
    send_message("reporting the end of a step");
    connection_.received(next_message_++, RemoteBuffer::kSize,
                         "waiting for the end of the peer's step");
  }

  template <typename Post>
  std::uint64_t atomic(Post post, std::string_view what) {
    DAT_LMR_TRIPLET local = outbox_.segment(0, sizeof(std::uint64_t));
    DAT_RMR_TRIPLET remote = peer_.triplet(sizeof(std::uint64_t));
    must(post(&local, &remote), what);
    connection_.completed(kOperationId, what);
    std::uint64_t original = 0;
    std::memcpy(&original, outbox_.at(0), sizeof original);
    return original;
  }

  static void verdict(const char* test, bool good) {
    tools::print("\n {} test - {}\n", test, good ? "PASSED" : "FAILED");
    tools::flush();
    if (!good) fail(fmt::format("{}: not what was expected", test));
  }

  const Options& options_;
  const Adapter& adapter_;
  const Part& own_values_;
  const Part& peer_values_;
  Events events_;
  Connection connection_;
  RemoteBuffer peer_;
  Memory inbox_;
  Memory outbox_;
  Memory messages_;
  std::uint64_t next_message_ = kFirstId;
  bool peer_is_ours_ = false;
};

int query(const std::string& given) {
  std::string name = given.empty() ? first_adapter() : given;
  DAT_HANDLE handle = DAT_HANDLE_NULL;
  DAT_IA_ATTR ia{};
  DAT_PROVIDER_ATTR provider{};
  // dat_ib_open_query is an extension of the provider, so an IA must be open, which loads it.
  Adapter adapter;
  adapter.open(name);
  must(dat_ib_open_query(name.data(), &handle, DAT_IA_FIELD_ALL, &ia, DAT_PROVIDER_FIELD_ALL,
                         &provider),
       fmt::format("querying the attributes of '{}'", name));
  tools::print(" Open_Query: {} num_attrs = {}\n", name, provider.num_provider_specific_attr);
  for (int i = 0; i < provider.num_provider_specific_attr; ++i) {
    tools::print(" Open_Query: Provider Specific Attribute[{}] {}={}\n", i,
                 provider.provider_specific_attr[i].name, provider.provider_specific_attr[i].value);
  }
  must(dat_ib_close_query(handle), "closing the query");
  adapter.close();
  return 0;
}

void run(Options& options) {
  Record record;
  Adapter adapter;
  if (options.common.server()) {
    adapter.open(options.common.provider);
  } else {
    tools::print("{} Client: waiting for server input\n", ::getpid());
    record = ask(options.common.host, [&](const Record& server) {
      if (options.common.provider.empty()) options.common.provider = server.provider;
      adapter.open(options.common.provider);
      return Record::of(adapter).text(false);
    });
  }
  tools::print("{} Local Address {}\n", ::getpid(),
               family_and_address(adapter.address(), kLocalQual));
  tools::print("\nRunning as {} - {}  1 endpoint(s) v{}\n",
               options.common.server() ? "Server" : "Client", adapter.name(),
               adapter.attributes().extension_version);
  if (options.datagrams && !adapter.has(DAT_IB_ATTR_UD))
    fail(fmt::format("the adapter '{}' has no datagrams (DAT_IB_UD)", adapter.name()));
  if (options.datagrams) fail("this program does not test datagrams");
  for (const char* needed :
       {DAT_IB_ATTR_IMMED_DATA, DAT_IB_ATTR_CMP_AND_SWAP, DAT_IB_ATTR_FETCH_AND_ADD}) {
    if (!adapter.has(needed))
      fail(fmt::format("the adapter '{}' lacks {}", adapter.name(), needed));
  }
  Extensions test(options, adapter);
  test.connect(record);
  test.write_immediate();
  test.compare_and_swap();
  test.fetch_and_add();
  if (options.counters)
    tools::print("counters: {}\n",
                 adapter.has(DAT_IB_ATTR_COUNTERS) ? "see datinfo" : "the adapter has none");
  test.end();
  adapter.check_async();
  adapter.close();
  tools::print("\n IB extension test - immed/atomic test PASSED\n\n");
}

}  // namespace
}  // namespace dtest

int main(int argc, char** argv) {
  dtest::program = "dtestx";
  CLI::App app{
      "Tests RDMA Writes with immediate data and atomic operations between two processes."};
  dtest::Options options;
  dtest::add_common(app, options.common);
  app.add_option("-b", options.length, "Bytes of the buffer (256)")
      ->check(CLI::Range(8U, 1U << 30));
  app.add_flag("-c", options.client, "This is the client: needs -h");
  app.add_flag("-q", options.query, "Only print the attributes of the adapter");
  app.add_flag("-p", options.counters, "Print the counters of the adapter, if it has any");
  app.add_flag("-u", options.datagrams,
               "Datagrams, which the adapters of this project do not have");
  app.add_option("-U", options.datagram_eps, "The same, with so many endpoints")
      ->check(CLI::Range(1U, 64U));
  app.add_flag("-m", options.many_eps, "The same, with several endpoints of the server");
  app.footer(
      "Start one without -h, and one with -h and the name of the machine of the first.\n"
      "Exit status: 0 passed; 1 something failed; 2 bad arguments.");
  if (const auto status = dtest::parse(app, argc, argv)) return *status;
  if (options.client && options.common.server()) {
    tools::print(stderr, "dtestx: -c needs -h\nTry 'dtestx --help'.\n");
    return 2;
  }
  options.datagrams = options.datagrams || options.many_eps || options.datagram_eps > 0;
  if (options.query) return tools::ended("dtestx", dtest::query(options.common.provider));
  dtest::failed_line = "\n IB extension test - FAILED\n";
  dtest::run(options);
  return tools::ended("dtestx", 0);
}
