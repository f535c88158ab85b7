// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// dtest - RDMA Writes, RDMA Reads and messages between two processes. A rewrite: the command line,
// the protocol and the printed results are those of the program of that name in dapl2-utils.
#include "dtest.h"

#include <fmt/core.h>
#include <unistd.h>

#include <CLI/CLI.hpp>

namespace dtest {
namespace {

void add_options(CLI::App& app, Options& options) {
  app.add_option("-b", options.length,
                 "Bytes of a transfer; with -a the largest (4194304; 1 with -W without -a and -D)")
      ->check(CLI::Range(1U, 1U << 30));
  // The last of -B, -W and -D decides, so that both sides agree if one is the original program.
  app.add_option("-B", options.burst, "RDMA Writes in a row (1000); if needed, after -W and -D")
      ->check(CLI::Range(1U, 1U << 30))
      ->trigger_on_parse();
  app.add_option("-S", options.signal_rate, "With -w: every so many Writes one completion (10)")
      ->check(CLI::Range(1U, 1U << 30));
  app.add_flag("-u", options.one_way, "Only the client writes");
  app.add_flag("-w", options.streaming, "RDMA Writes only, in a row");
  const auto add_pingpong = [&](const char* name, bool& chosen, const char* help) {
    const auto choose = [&options, &chosen] {
      chosen = true;
      options.burst = Options::kBurst;
    };
    app.add_flag_callback(name, choose, help)->trigger_on_parse();
  };
  add_pingpong("-W", options.pingpong, "RDMA Writes only, to and fro; sets -B to 1000");
  add_pingpong("-D", options.data_check, "As -W, and compare all data");
  app.add_flag("-a", options.all_sizes, "With -W or -D: all sizes, around each power of two");
  app.add_option("-i", options.increment, "With -a: around each multiple of this")
      ->check(CLI::Range(1U, 1U << 30));
  app.add_flag("-t", options.times, "Print how long calls took");
  app.add_flag("-c", options.cno, "Wait by a notifier (CNO)");
  app.add_flag("-p", options.poll, "Wait by polling");
  app.add_option("-d", options.delay_s, "Server: seconds before it accepts")
      ->check(CLI::Range(0U, 3600U));
  app.add_flag("-U", options.usage, "As --help, with exit status 2");
  app.footer(
      "Start one without -h, and one with -h and the name of the machine of the first.\n"
      "Exit status: 0 passed; 1 something failed; 2 bad arguments.");
}

void print_times(const Transfers& test, const Adapter& adapter, const Connection& connection) {
  for (const double us : test.read_us) {
    tools::print("{}: RDMA read:   Total={:10.2f} usec, {:3} bursts, itime={:10.2f} usec\n",
                 ::getpid(), test.reads_total_us(), test.read_us.size(), us);
  }
  const std::pair<const char*, double> rows[] = {
      {"open:      ", adapter.open_us},          {"close:     ", adapter.close_us},
      {"PZ create: ", adapter.pz_create_us},     {"PZ free:   ", adapter.pz_free_us},
      {"EVD create:", connection.evd_create_us}, {"EVD free:  ", connection.evd_free_us},
      {"EP create: ", connection.ep_create_us},  {"EP free:   ", connection.ep_free_us},
      {"connect:   ", connection.connect_us}};
  double total = 0;
  for (const auto& [name, us] : rows) {
    tools::print("{}: {}  {:10.2f} usec\n", ::getpid(), name, us);
    total += us;
  }
  tools::print("{}: TOTAL:       {:10.2f} usec\n", ::getpid(), total);
}

void run(Options& options) {
  Record record;
  if (!options.common.server()) {
    say("Running as client - waiting for server input");
    record = ask(options.common.host);
    if (options.common.provider.empty()) options.common.provider = record.provider;
  }
  Adapter adapter;
  adapter.open(options.common.provider);
  say("Running as {} - {} v2 ", options.common.role(), adapter.name());
  say("Local Address {}", family_and_address(adapter.address(), kConnQual));
  Transfers test(options, adapter);
  test.connect(record);
  if (options.pingpong || options.data_check) {
    test.write_pingpong();
  } else {
    test.write();
    if (!options.streaming) {
      test.read();
      test.message_pingpong();
    }
  }
  test.end();
  adapter.check_async();
  adapter.close();
  test.print_results();
  if (options.times) print_times(test, adapter, test.connection());
  tools::print("\n{}: DAPL Test Complete. PASSED\n\n", ::getpid());
}

}  // namespace
}  // namespace dtest

int main(int argc, char** argv) {
  dtest::program = "dtest";
  CLI::App app{"Tests RDMA Writes, RDMA Reads and messages between two processes."};
  dtest::Options options;
  dtest::add_common(app, options.common);
  dtest::add_options(app, options);
  if (const auto status = dtest::parse(app, argc, argv)) return *status;
  if (options.usage) {
    tools::print("{}", app.help());
    return tools::ended("dtest", 2);
  }
  if (options.all_sizes && !options.pingpong && !options.data_check) {
    tools::print(stderr, "dtest: -a needs -W or -D\nTry 'dtest --help'.\n");
    return 2;
  }
  const bool smallest = options.pingpong && !options.all_sizes && !options.data_check;
  if (options.length == 0) options.length = smallest ? 1 : 4U << 20;
  dtest::failed_line = fmt::format("\n{}: DAPL Test Complete. FAILED\n", ::getpid());
  dtest::run(options);
  return tools::ended("dtest", 0);
}
