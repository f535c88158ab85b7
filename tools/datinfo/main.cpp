// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// datinfo - shows which adapters programs can open on this machine, and why the others fail.
#include <fmt/core.h>

#include <CLI/CLI.hpp>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <optional>
#include <string>

#include "../program.h"
#include "check.h"
#include "generate.h"
#include "list.h"
#include "machine.h"
#include "paths.h"

namespace {

void add_list_options(CLI::App& command, datinfo::ListOptions& options, unsigned& seconds) {
  command.add_flag("--json", options.json, "Print JSON");
  command.add_flag("--attributes", options.attributes, "Print the attributes of all that open");
  command.add_option("--timeout", seconds, "Seconds that opening one adapter may take")
      ->capture_default_str()
      ->check(CLI::Range(1U, 3600U));
  command.add_option("--sysfs", options.sysfs, "Where the kernel describes devices (/sys)");
  command.add_option("--dev", options.dev, "Where device files are (/dev)");
}

int write(const std::string& text, const std::string& path) {
  if (path.empty()) {
    tools::print("{}", text);
    return 0;
  }
  std::FILE* file = std::fopen(path.c_str(), "we");
  const bool written = file != nullptr && std::fputs(text.c_str(), file) >= 0;
  const bool closed = file != nullptr && std::fclose(file) == 0;
  if (written && closed) return 0;
  tools::print(stderr, "datinfo: {}: {}\n", path, std::strerror(errno));
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{
      "Reports which adapters (IAs) of dat.conf programs can open, and why the others fail."};
  app.footer(
      "The dat.conf is the one that a program with this environment reads: DAT_OVERRIDE, else the\n"
      "system's. Exit status: 0 what was named opens (without names: something does), or the file "
      "has\n"
      "no errors; 1 otherwise; 2 bad arguments.");
  app.set_version_flag("--version", tools::version_of("datinfo"), "Print the version and exit");
  app.require_subcommand(0, 1);
  app.failure_message([](const CLI::App*, const CLI::Error& error) {
    return std::string("datinfo: ") + error.what() + "\nTry 'datinfo --help'.\n";
  });

  datinfo::ListOptions options;
  unsigned seconds = 10;
  add_list_options(app, options, seconds);
  CLI::App* list = app.add_subcommand("list", "Open each adapter and report the result (default)");
  add_list_options(*list, options, seconds);
  list->add_option("NAME", options.names, "Only these adapters, with their attributes");

  CLI::App* ways = app.add_subcommand(
      "paths", "Connect two processes over each adapter and report the path within this host");
  datinfo::PathOptions path_options;
  ways->add_option("NAME", path_options.names, "Only these adapters");
  ways->add_flag("--json", path_options.json, "Print JSON");
  ways->add_option("--timeout", seconds, "Seconds that one adapter may take")
      ->capture_default_str()
      ->check(CLI::Range(1U, 3600U));

  CLI::App* check = app.add_subcommand("check", "Look for mistakes in a dat.conf");
  std::optional<std::string> file;
  check->add_option("FILE", file, "The file, instead of the one in use");
  check->add_flag("--json", options.json, "Print JSON");
  check->add_option("--sysfs", options.sysfs, "Where the kernel describes devices (/sys)");

  CLI::App* generate = app.add_subcommand("generate", "Write a dat.conf for this machine");
  std::string output;
  generate->add_option("--sysfs", options.sysfs, "Where the kernel describes devices (/sys)");
  generate->add_option("--output", output, "To this file instead of standard output");

  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return tools::ended("datinfo", app.exit(error) == 0 ? 0 : 2);
  }
  int status = 0;
  if (check->parsed()) {
    const datinfo::Conf conf = datinfo::read_conf(file);
    status = datinfo::print_check(conf, datinfo::check(conf, options.sysfs), options.json);
  } else if (ways->parsed()) {
    path_options.limit = std::chrono::seconds(seconds);
    status = datinfo::paths(path_options);
  } else if (generate->parsed()) {
    status =
        write(datinfo::generate(datinfo::rdma_ports(options.sysfs), datinfo::netdevs()), output);
  } else {
    options.limit = std::chrono::seconds(seconds);
    status = datinfo::list(options);
  }
  return tools::ended("datinfo", status);
}
