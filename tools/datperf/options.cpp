// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "options.h"
#include "../program.h"
#include "../real_range.h"

#include <dat/udat.h>

#include <CLI/CLI.hpp>

#include <algorithm>
#include <map>

namespace datperf {

namespace {

// The values whose combinations make up the cases.
struct Lists {
  std::vector<std::string> measures{"latency", "bandwidth", "connections"};
  std::vector<std::string> operations{"send", "write", "read"};
  std::vector<std::string> waitings{"poll", "block"};
  std::vector<std::uint32_t> sizes{8, 128, 2048, 32768, 524288};
  std::vector<std::uint32_t> windows{16};
  std::vector<std::uint32_t> endpoints{1};
  std::vector<std::uint32_t> threads{1};
};

// Each option takes one word only: a second one could be meant as the host.
template <typename List>
CLI::Option* add_list(CLI::App& command, const char* name, List& list, const char* help,
                      const char* text) {
  return command.add_option(name, list, help)
      ->delimiter(',')
      ->allow_extra_args(false)
      ->option_text(text);
}

template <typename Names>
std::vector<std::string> words(const Names& names) {
  return {names.begin(), names.end()};
}

void add_common_options(CLI::App& command, Plan& plan) {
  add_list(command, "--ia", plan.ias, "Adapters, as in dat.conf (soft)", "NAME,...")
      ->check([](const std::string& name) {
        return name.empty() || name.size() >= DAT_NAME_MAX_LENGTH ? "must have 1 to 255 characters"
                                                                  : std::string{};
      });
  command
      .add_option("--port", plan.port, "Connection qualifier of the first adapter, others follow")
      ->capture_default_str()
      ->check(CLI::Range(1, 65000));
  command.add_option("--timeout", plan.timeout_s, "Seconds to wait for an answer")
      ->capture_default_str()
      ->check(CLI::Range(1, 3600));
  command.add_flag("--sockets", plan.sockets, "TCP sockets, too, at the port after the adapters'");
}

void add_lists(CLI::App& command, Lists& lists) {
  add_list(command, "--measure", lists.measures, "Some of latency,bandwidth,connections (all)",
           "NAME,...")
      ->check(CLI::IsMember(words(kMeasures)));
  add_list(command, "--operations", lists.operations,
           "Some of send,write,read,fetch-add (send,write,read)", "NAME,...")
      ->check(CLI::IsMember(words(kOperations)));
  add_list(command, "--waiting", lists.waitings, "Some of poll,block (both)", "NAME,...")
      ->check(CLI::IsMember(words(kWaitings)));
  add_list(command, "--sizes", lists.sizes, "Bytes of a transfer (8,128,2048,32768,524288)",
           "N,...")
      ->check(CLI::Range(1U, kMaxSize));
  add_list(command, "--windows", lists.windows, "Transfers in flight on an endpoint (16)", "N,...")
      ->check(CLI::Range(1U, kMaxWindow));
  add_list(command, "--endpoints", lists.endpoints, "Endpoints of each thread (1)", "N,...")
      ->check(CLI::Range(1U, kMaxEndpoints));
  add_list(command, "--threads", lists.threads, "Threads (1)", "N,...")
      ->check(CLI::Range(1U, kMaxThreads));
}

void add_effort(CLI::App& command, Effort& effort) {
  command.add_option("--rounds", effort.rounds, "Rounds of each measurement")
      ->capture_default_str()
      ->check(CLI::Range(1U, 1000U));
  command.add_option("--seconds", effort.seconds, "Length of a round")
      ->default_str("0.05")
      ->check(tools::real_range(0.001, 3600.0));
  command.add_option("--warm-up", effort.warm_up, "Seconds before the first round")
      ->default_str("0.05")
      ->check(tools::real_range(0.0, 3600.0));
  command.add_option("--count", effort.count, "Operations of a round, instead of a time")
      ->check(CLI::Range(std::uint64_t{1}, std::uint64_t{1'000'000'000}));
}

void add_reports(CLI::App& command, Options& options) {
  command.add_option("--json", options.json, "Write JSON ('-': to standard output)")
      ->option_text("FILE");
  command.add_option("--csv", options.csv, "Write CSV ('-': to standard output)")
      ->option_text("FILE");
  command.add_option("--html", options.html, "Write a page with curves")->option_text("FILE");
}

// The enumerator of that name, which has been validated already.
template <typename Value, typename Names>
Value value_of(const Names& names, const std::string& name) {
  return static_cast<Value>(std::find(names.begin(), names.end(), name) - names.begin());
}

void add_cases(std::vector<Case>& cases, Case what, const Lists& lists) {
  const bool latency = what.measure == Measure::kLatency;
  const bool atomic = what.operation == Operation::kFetchAdd;
  for (const std::uint32_t size : atomic ? std::vector{kAtomicSize} : lists.sizes)
    for (const std::uint32_t window : latency ? std::vector{1U} : lists.windows)
      for (const std::uint32_t endpoints : lists.endpoints)
        for (const std::uint32_t threads : lists.threads) {
          what.size = size;
          what.window = window;
          what.endpoints = endpoints;
          what.threads = threads;
          cases.push_back(what);
        }
}

std::vector<Case> cases_of(const Lists& lists) {
  std::vector<Case> cases;
  for (const std::string& measure : lists.measures)
    for (const std::string& waiting : lists.waitings) {
      Case what;
      what.measure = value_of<Measure>(kMeasures, measure);
      what.waiting = value_of<Waiting>(kWaitings, waiting);
      if (what.measure == Measure::kConnections) {
        Lists plain = lists;
        plain.sizes = {1};
        plain.windows = {1};
        add_cases(cases, what, plain);
        continue;
      }
      for (const std::string& operation : lists.operations) {
        what.operation = value_of<Operation>(kOperations, operation);
        add_cases(cases, what, lists);
      }
    }
  return cases;
}

void add_client(CLI::App& command, Options& options, Lists& lists) {
  add_common_options(command, options.plan);
  add_lists(command, lists);
  add_effort(command, options.plan.effort);
  add_reports(command, options);
}

constexpr const char* kFooter =
    "Latency of send and write is half of a round trip, of read and fetch-add the whole "
    "operation.\n"
    "The interval beside a median has it with a probability of 95% (six rounds or more).\n"
    "The exit status is 0 if everything was measured, 1 if not, 2 if the arguments are wrong.";

void check_together(const Options& options) {
  const Plan& plan = options.plan;
  if (options.command == Command::kClient && plan.hosts.size() != 1 &&
      plan.hosts.size() != plan.ias.size())
    throw CLI::ValidationError("host", "one for all adapters, or one for each");
  for (auto ia = plan.ias.begin(); ia != plan.ias.end(); ++ia)
    if (std::find(ia + 1, plan.ias.end(), *ia) != plan.ias.end())
      throw CLI::ValidationError("--ia", *ia + " is named twice");
  if (options.json == "-" && options.csv == "-")
    throw CLI::ValidationError("--csv", "standard output is taken by --json");
}

}  // namespace

std::optional<Options> parse(int argc, char** argv, int& status) {
  CLI::App app{"Measures DAT: latency, bandwidth, message rate, connections."};
  app.set_version_flag("--version", tools::version_of("datperf"), "Print the version and exit");
  app.require_subcommand(0, 1);  // a missing one is reported last, after any other mistake
  app.failure_message([](const CLI::App*, const CLI::Error& error) {
    return std::string("datperf: ") + error.what() + "\nTry 'datperf --help'.\n";
  });
  app.footer(kFooter);

  Options options;
  Lists lists;
  CLI::App* server = app.add_subcommand("server", "Wait for clients");
  add_common_options(*server, options.plan);
  server->add_option("--clients", options.clients, "Exit after this many clients, 0: never")
      ->capture_default_str();
  CLI::App* client = app.add_subcommand("client", "Measure with a server");
  add_client(*client, options, lists);
  add_list(*client, "host", options.plan.hosts, "Server: name or address, or one for each adapter",
           "HOST,...")
      ->required();
  CLI::App* both = app.add_subcommand("both", "Measure with a server of its own");
  add_client(*both, options, lists);
  std::string address = "127.0.0.1";
  both->add_option("--address", address, "Of this machine")->capture_default_str();
  try {
    app.parse(argc, argv);
    if (app.get_subcommands().empty()) throw CLI::RequiredError("server, client or both");
    options.command = server->parsed()   ? Command::kServer
                      : client->parsed() ? Command::kClient
                                         : Command::kBoth;
    if (both->parsed()) options.plan.hosts = {address};
    check_together(options);
  } catch (const CLI::ParseError& error) {
    status = app.exit(error) == 0 ? 0 : 2;
    return std::nullopt;
  }
  options.plan.cases = cases_of(lists);
  return options;
}

}  // namespace datperf
