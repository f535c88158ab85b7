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

// The arguments of all commands, and which of these was given.
class Arguments {
 public:
  Arguments();

  // Throws CLI::ParseError.
  void parse(int argc, char** argv);
  int exit(const CLI::ParseError& error) { return app_.exit(error); }

  // Executes the command and returns the exit status.
  [[nodiscard]] int run() const;

 private:
  void add_list_options(CLI::App& command);
  void add_timeout(CLI::App& command, const std::string& text);
  void add_sysfs(CLI::App& command);

  CLI::App app_{
      "Reports which adapters (IAs) of dat.conf programs can open, and why the others fail."};
  CLI::App* paths_ = nullptr;
  CLI::App* check_ = nullptr;
  CLI::App* generate_ = nullptr;
  datinfo::ListOptions list_options_;
  datinfo::PathOptions path_options_;
  unsigned seconds_ = 10;
  std::optional<std::string> file_;
  std::string output_;
};

Arguments::Arguments() {
  app_.footer(
      "The dat.conf is the one that a program with this environment reads: DAT_OVERRIDE, else the\n"
      "system's. Exit status: 0 what was named opens (without names: something does), or the file "
      "has\n"
      "no errors; 1 otherwise; 2 bad arguments.");
  app_.set_version_flag("--version", tools::version_of("datinfo"), "Print the version and exit");
  app_.require_subcommand(0, 1);
  app_.failure_message([](const CLI::App*, const CLI::Error& error) {
    return std::string("datinfo: ") + error.what() + "\nTry 'datinfo --help'.\n";
  });
  add_list_options(app_);

  CLI::App* list = app_.add_subcommand("list", "Open each adapter and report the result (default)");
  add_list_options(*list);
  list->add_option("NAME", list_options_.names, "Only these adapters, with their attributes");

  paths_ = app_.add_subcommand(
      "paths", "Connect two processes over each adapter and report the path within this host");
  paths_->add_option("NAME", path_options_.names, "Only these adapters");
  paths_->add_flag("--json", path_options_.json, "Print JSON");
  add_timeout(*paths_, "Seconds that one adapter may take");

  check_ = app_.add_subcommand("check", "Look for mistakes in a dat.conf");
  check_->add_option("FILE", file_, "The file, instead of the one in use");
  check_->add_flag("--json", list_options_.json, "Print JSON");
  add_sysfs(*check_);

  generate_ = app_.add_subcommand("generate", "Write a dat.conf for this machine");
  add_sysfs(*generate_);
  generate_->add_option("--output", output_, "To this file instead of standard output");
}

void Arguments::add_timeout(CLI::App& command, const std::string& text) {
  command.add_option("--timeout", seconds_, text)
      ->capture_default_str()
      ->check(CLI::Range(1U, 3600U));
}

void Arguments::add_sysfs(CLI::App& command) {
  command.add_option("--sysfs", list_options_.sysfs, "Where the kernel describes devices (/sys)");
}

void Arguments::add_list_options(CLI::App& command) {
  command.add_flag("--json", list_options_.json, "Print JSON");
  command.add_flag("--attributes", list_options_.attributes,
                   "Print the attributes of all that open");
  add_timeout(command, "Seconds that opening one adapter may take");
  add_sysfs(command);
  command.add_option("--dev", list_options_.dev, "Where device files are (/dev)");
}

void Arguments::parse(int argc, char** argv) {
  app_.parse(argc, argv);
  list_options_.limit = path_options_.limit = std::chrono::seconds(seconds_);
}

// Writes `text` to a file, or to standard output if `path` is empty. Returns the exit status.
int write(const std::string& text, const std::string& path) {
  if (path.empty()) {
    tools::print("{}", text);
    return 0;
  }
  std::FILE* file = std::fopen(path.c_str(), "we");
  int error = file == nullptr || std::fputs(text.c_str(), file) < 0 ? errno : 0;
  if (file != nullptr && std::fclose(file) != 0 && error == 0) error = errno;
  if (error == 0) return 0;
  tools::print(stderr, "datinfo: {}: {}\n", path, std::strerror(error));
  return 1;
}

int Arguments::run() const {
  if (check_->parsed()) {
    const datinfo::Conf conf = datinfo::read_conf(file_);
    return datinfo::print_check(conf, datinfo::check(conf, list_options_.sysfs),
                                list_options_.json);
  }
  if (paths_->parsed()) return datinfo::paths(path_options_);
  if (generate_->parsed()) {
    return write(datinfo::generate(datinfo::rdma_ports(list_options_.sysfs), datinfo::netdevs()),
                 output_);
  }
  return datinfo::list(list_options_);
}

}  // namespace

int main(int argc, char** argv) {
  Arguments arguments;
  try {
    arguments.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return tools::ended("datinfo", arguments.exit(error) == 0 ? 0 : 2);
  }
  return tools::ended("datinfo", arguments.run());
}
