// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "control.h"
#include "performance.h"
#include "transaction.h"

#include <algorithm>
#include <thread>

namespace dapltest {
namespace {

double seconds(Clock::duration span) { return std::chrono::duration<double>(span).count(); }

std::string percentiles(const Histogram& histogram) {
  return fmt::format("p50 {:.1f}, p90 {:.1f}, p99 {:.1f}, p99.9 {:.1f} us",
                     histogram.percentile_us(0.5), histogram.percentile_us(0.9),
                     histogram.percentile_us(0.99), histogram.percentile_us(0.999));
}

// ---- Transactions

// Bytes transferred by all endpoints together, by kind of transfer.
struct Totals {
  std::uint64_t operations = 0;
  std::uint64_t sent = 0;
  std::uint64_t received = 0;
  std::uint64_t read = 0;
  std::uint64_t written = 0;
};

Totals totals(const Options& options) {
  const std::uint64_t times =
      std::uint64_t{options.iterations} * options.threads * options.endpoints;
  Totals result;
  result.operations = times * options.operations.size();
  for (const Operation& operation : options.operations) {
    std::uint64_t& kind = operation.transfer == Transfer::kRead    ? result.read
                          : operation.transfer == Transfer::kWrite ? result.written
                          : operation.by_server                    ? result.received
                                                                   : result.sent;
    kind += operation.bytes() * times;
  }
  return result;
}

void print(const Options& options, const Totals& all, double elapsed, const Histogram& histogram) {
  const auto rate = [&](std::uint64_t bytes) { return double(bytes) / 1e6 / elapsed; };
  const auto line = [&](const char* what, std::uint64_t bytes) {
    say(fmt::format("{:<17}: {:10.2f} MB - {:10.2f} MB/Sec", what, double(bytes) / 1e6,
                    rate(bytes)));
  };
  say(fmt::format("----- Stats ---- : {} threads, {} EPs", options.threads, options.endpoints));
  say(fmt::format("{:<17}: {:10.2f} WQE/Sec", "Total WQE", double(all.operations) / elapsed));
  say(fmt::format("{:<17}: {:10.2f} sec", "Total Time", elapsed));
  line("Total Send", all.sent);
  line("Total Recv", all.received);
  line("Total RDMA Read", all.read);
  line("Total RDMA Write", all.written);
  say(fmt::format("{:<17}: mean {:.1f}, min {:.1f}, max {:.1f}, {}", "Iteration",
                  histogram.mean_us(), histogram.min_us(), histogram.max_us(),
                  percentiles(histogram)));
}

void add_result(const Options& options, const Totals& all, double elapsed,
                const Histogram& histogram, Json& json) {
  json.add("threads", std::uint64_t{options.threads});
  json.add("endpoints_per_thread", std::uint64_t{options.endpoints});
  json.add("iterations", std::uint64_t{options.iterations});
  json.add("validated", options.validate);
  json.add("seconds", elapsed);
  json.add("operations", all.operations);
  json.add("operations_per_second", double(all.operations) / elapsed);
  json.add("bytes_sent", all.sent);
  json.add("bytes_received", all.received);
  json.add("bytes_rdma_read", all.read);
  json.add("bytes_rdma_written", all.written);
  json.add_raw("iteration_us", histogram.json());
}

bool run_transactions(const Options& options, Address& server, const wire::Info& info, Json& json) {
  std::vector<std::unique_ptr<Transaction>> transactions;
  for (std::uint32_t i = 0; i < options.threads; ++i) {
    transactions.push_back(std::make_unique<Transaction>(options, false, info.little_endian));
    if (!transactions.back()->create()) {
      return false;
    }
  }
  Progress progress(std::uint64_t{options.iterations} * options.threads, options.quiet);
  std::atomic<bool> good{true};
  std::vector<std::thread> threads;
  for (std::uint32_t i = 0; i < options.threads; ++i) {
    threads.emplace_back([&, i] {
      Address address = server;
      if (!transactions[i]->run(&address, info.third + i * options.endpoints, &progress)) {
        good = false;
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  if (!good) {
    return false;
  }
  auto histogram = std::make_unique<Histogram>();
  Clock::duration longest{1};
  for (const auto& transaction : transactions) {
    histogram->merge(transaction->iterations());
    longest = std::max(longest, transaction->span());
  }
  const Totals all = totals(options);
  print(options, all, seconds(longest), *histogram);
  add_result(options, all, seconds(longest), *histogram, json);
  return true;
}

// ---- Performance

void print_calls(const char* title, const char* what, const Histogram& histogram) {
  say(fmt::format("\n{}", title));
  if (*what != '\0') {
    say(fmt::format("    {} {}", histogram.count(), what));
  }
  say(fmt::format("    Arithmetic mean      : {:.2f} us", histogram.mean_us()));
  say(fmt::format("    maximum              : {:.2f} us", histogram.max_us()));
  say(fmt::format("    minimum              : {:.2f} us", histogram.min_us()));
}

void print(const Options& options, const Measurement& result, double rate, double mib_per_s) {
  const Operation& operation = options.operations.front();
  const double elapsed = seconds(result.span);
  const auto line = [](const char* what, const std::string& value) {
    say(fmt::format("    {:<21}: {}", what, value));
  };
  say("------------------------- Statistics -------------------------");
  line("Mode", options.poll ? "polling" : "blocking");
  line("Operation Type", name(operation.transfer));
  line("Number of Operations", std::to_string(options.iterations));
  line("Segment Size", std::to_string(operation.segment_size));
  line("Number of Segments", std::to_string(operation.segments));
  line("Pipeline Length", std::to_string(result.pipeline));
  say("");
  line("Total Time", fmt::format("{:.2f} sec", elapsed));
  line("Total Data Exchanged",
       fmt::format("{:.2f} MB", double(operation.bytes()) * options.iterations / (1 << 20)));
  line("CPU Utilization", fmt::format("{:.2f}", result.cpu_share * 100));
  line("Operation Throughput", fmt::format("{:.2f} ops/sec", rate));
  line("Bandwidth", fmt::format("{:.2f} MB/sec", mib_per_s));
  print_calls("Latency", "", result.latency);
  say(fmt::format("    percentiles          : {}", percentiles(result.latency)));
  print_calls("Time Per Post", "posts", result.posts);
  print_calls("Time Per Reap", "reaps", result.reaps);
  say("\nNOTE: 1 MB = 1024 KB = 1048576 B");
  const std::string rule(69, '-');
  say(rule);
  say(fmt::format("raw: {}, {}, {}, {}, {}, {:.2f}, {:.2f}, {:.2f}, {:.2f}, {:.2f}, {:.2f}",
                  name(operation.transfer), options.iterations, operation.segment_size,
                  operation.segments, result.pipeline, result.cpu_share * 100, rate, mib_per_s,
                  result.latency.mean_us(), result.posts.mean_us(), result.reaps.mean_us()));
  say(rule);
}

bool run_performance(const Options& options, Address& server, const wire::Info& info, Json& json) {
  Performance performance(options, false, info.little_endian);
  Progress progress(options.iterations, options.quiet);
  const auto result = std::make_unique<Measurement>();
  if (!performance.create() || !performance.measure(server, info.third, progress, *result)) {
    return false;
  }
  const Operation& operation = options.operations.front();
  const double elapsed = std::max(seconds(result->span), 1e-9);
  const double rate = options.iterations / elapsed;
  const double mib_per_s = rate * double(operation.bytes()) / (1 << 20);
  print(options, *result, rate, mib_per_s);
  json.add("mode", options.poll ? "polling" : "blocking");
  json.add("operation", name(operation.transfer));
  json.add("operations", std::uint64_t{options.iterations});
  json.add("segment_size", std::uint64_t{operation.segment_size});
  json.add("segments", std::uint64_t{operation.segments});
  json.add("pipeline", std::uint64_t{result->pipeline});
  json.add("seconds", elapsed);
  json.add("cpu_percent", result->cpu_share * 100);
  json.add("operations_per_second", rate);
  json.add("mib_per_second", mib_per_s);
  json.add_raw("latency_us", result->latency.json());
  json.add_raw("post_us", result->posts.json());
  json.add_raw("reap_us", result->reaps.json());
  return true;
}

}  // namespace

bool run_client(const Options& options, Json& json) {
  Address server;
  if (!server.resolve(options.server)) {
    return false;
  }
  say(fmt::format("Server Name: {}", options.server));
  say(fmt::format("Server Net Address: {}", server.text()));
  json.add("server", options.server);
  json.add("port", std::uint64_t{options.port});
  if (options.validate) {
    say("NOTE: Adding OP \"server SR\" - for validation");
    say("NOTE: Adding OP \"client SR\" - for validation");
    say("NOTE: Adding OP \"server SR\" - for validation");
  }
  Adapter adapter;
  Control control;
  wire::Info info;
  // The control connection has the QoS of the test: if the adapter refuses it, that fails before
  // the server waits for the test's connections, and the packaged server waits forever.
  if (!adapter.open(options.device) || !control.create(adapter, options.timeout_s, options.qos)) {
    return false;
  }
  say("DT_cs_Client: Starting Test ... ");
  if (!control.request(server, options, info)) {
    return false;
  }
  bool good = true;
  if (options.test == Test::kTransaction) {
    good = run_transactions(options, server, info, json);
  } else if (options.test == Test::kPerformance) {
    good = run_performance(options, server, info, json);
  }
  control.disconnect();
  say("DT_cs_Client: ========== End of Work -- Client Exiting");
  return good;
}

}  // namespace dapltest
