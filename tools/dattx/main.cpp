// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// dattx - DAT transactions: transfers data between two processes with every kind of DAT transfer,
// verifies every byte of some transfers, measures the others, and prints a table.
#include "../program.h"
#include "client.h"
#include "server.h"

#include <CLI/CLI.hpp>

#include <cstdio>
#include <map>
#include <string>
#include <vector>

namespace {

using dattx::Operation;

void add_common_options(CLI::App& command, dattx::Settings& settings) {
  command.add_option("--ia", settings.ia, "Name of the adapter in dat.conf")
      ->capture_default_str()
      ->check([](const std::string& name) {
        return name.empty() || name.size() >= DAT_NAME_MAX_LENGTH ? "must have 1 to 255 characters"
                                                                  : std::string{};
      });
  command.add_option("--port", settings.port, "Connection qualifier of the server")
      ->capture_default_str()
      ->check(CLI::Range(1, 65535));
  command.add_option("--timeout", settings.timeout_s, "Seconds to wait for one event")
      ->capture_default_str()
      ->check(CLI::Range(1, 3600));
  command.add_flag("--poll", settings.poll, "Wait by polling: lower latency, one busy processor");
}

// The operations, by the names that --operations accepts.
const std::map<std::string, Operation>& operations() {
  static const std::map<std::string, Operation> names{{"sr", Operation::kSend},
                                                      {"rw", Operation::kWrite},
                                                      {"rr", Operation::kRead},
                                                      {"pp", Operation::kPing}};
  return names;
}

void add_client_options(CLI::App& client, dattx::Plan& plan, std::vector<std::string>& chosen) {
  client
      .add_option("host", plan.host,
                  "Name or address of the server, of the family of the adapter's address")
      ->required();
  // Each option takes one word only: a second one could be meant as the host.
  client.add_option("--operations", chosen, "Some of sr,rw,rr,pp (all)")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->option_text("NAME,...")
      ->check(CLI::IsMember(&operations()));
  client
      .add_option("--sizes", plan.sizes,
                  "Bytes per transfer, 1 to 67108864 (4,64,1024,16384,262144,4194304)")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->option_text("N,...")
      ->check(CLI::Range(1U, 64U << 20));
  client
      .add_option("--count", plan.count, "Transfers per measurement (at most 64 MiB, at least 4)")
      ->capture_default_str()
      ->check(CLI::Range(1U, 10'000'000U));
  client.add_option("--window", plan.window, "Transfers in flight when measuring bandwidth")
      ->capture_default_str()
      ->check(CLI::Range(1U, 64U));
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"Runs verified DAT transactions between two processes and prints a table."};
  app.set_version_flag("--version", tools::version_of("dattx"), "Print the version and exit");
  app.require_subcommand(0, 1);  // a missing one is reported last, after any other mistake
  app.failure_message([](const CLI::App*, const CLI::Error& error) {
    return std::string("dattx: ") + error.what() + "\nTry 'dattx --help'.\n";
  });
  app.footer(
      "Latency is the time of one transfer alone: SR and RW until the server has confirmed it, RR "
      "until\n"
      "the data are here, PP half of the round trip. MB/s (10^6 bytes) is with several in flight; "
      "for PP\n"
      "it is bytes by latency. The exit status is 0 only if everything worked and all data were "
      "right.");

  dattx::Settings settings;
  CLI::App* server = app.add_subcommand("server", "Wait for clients");
  add_common_options(*server, settings);
  std::uint32_t clients = 0;
  server->add_option("--clients", clients, "Exit after this many clients, 0: never")
      ->capture_default_str();

  CLI::App* client = app.add_subcommand("client", "Run transactions with a server");
  add_common_options(*client, settings);
  dattx::Plan plan;
  plan.sizes = {4, 64, 1024, 16384, 262144, 4194304};
  std::vector<std::string> chosen{"sr", "rw", "rr", "pp"};
  add_client_options(*client, plan, chosen);

  try {
    app.parse(argc, argv);
    if (!server->parsed() && !client->parsed()) {
      throw CLI::RequiredError("server or client");
    }
  } catch (const CLI::ParseError& error) {
    return tools::ended("dattx", app.exit(error) == 0 ? 0 : 2);
  }
  for (const std::string& operation : chosen) {
    plan.operations.push_back(operations().at(operation));
  }
  const int status =
      server->parsed() ? dattx::serve(settings, clients) : dattx::run(settings, plan);
  return tools::ended("dattx", status);
}
