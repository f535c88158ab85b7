// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "command_line.h"

#include <algorithm>
#include <cstdlib>
#include <string_view>
#include <utility>

#include "partner.h"

namespace conformance {

namespace {

// Parses an integer within the limits; sets command.wrong if it is none.
int number(Command& command, std::string_view name, std::string_view text, int low, int high) {
  char* end = nullptr;
  const std::string copy(text);
  const long value = std::strtol(copy.c_str(), &end, 10);
  if (copy.empty() || *end != '\0' || value < low || value > high)
    command.wrong = std::string(name) + ": not a number of " + std::to_string(low) + " to " +
                    std::to_string(high) + ": " + copy;
  return static_cast<int>(value);
}

class Reader {
 public:
  Reader(int argc, char** argv) : argc_(argc), argv_(argv) {}

  Command read() {
    command_.rest.push_back(argv_[0]);
    // datconform prints its own summary. Both options of Boost.Test can still be given.
    if (!has("--report_level")) command_.rest.push_back(no_report_);
    if (!has("--color_output")) command_.rest.push_back(no_colour_);
    bool wants_value = false;  // the argument before is an option of Boost.Test, without its value
    for (at_ = 1; at_ < argc_; ++at_) {
      const std::string_view argument(argv_[at_]);
      const bool ours = take();
      if (!ours) {
        if (!argument.starts_with('-') && !wants_value)
          command_.wrong = "not expected: " + std::string(argument);
        command_.rest.push_back(argv_[at_]);
      }
      wants_value = !ours && argument.starts_with('-') && argument.find('=') == argument.npos;
    }
    return std::move(command_);
  }

 private:
  [[nodiscard]] bool has(std::string_view name) const {
    return std::any_of(argv_ + 1, argv_ + argc_, [&](const char* argument) {
      return std::string_view(argument).substr(0, name.size()) == name;
    });
  }

  bool take() {
    return value("--ia", command_.options.ia) || value("--peer", command_.options.peer) ||
           value("--junit", command_.junit) || value("--quirks", command_.quirks) ||
           value("--observe", command_.observe) || flag("--list", command_.list) ||
           flag("--coverage", command_.coverage) || flag("--fail-fast", command_.fail_fast) ||
           flag("--help", command_.help) || flag("-h", command_.help) ||
           flag("--version", command_.version) || thread_safe() ||
           counted("--isolate", command_.isolate, 60, 1, 86400) ||
           counted("--jobs", command_.jobs, 1, 1, 256) ||
           counted("--listen", command_.listen, kDefaultPort, 1, 65535) ||
           counted("--result-fd", command_.result_fd, -1, 0, 1 << 20) ||
           counted("--partner-fd", command_.partner_fd, -1, 0, 1 << 20);
  }

  bool value(std::string_view name, std::string& into) {
    const std::string_view argument(argv_[at_]);
    if (argument.substr(0, name.size()) != name) return false;
    if (argument.size() > name.size()) {
      if (argument[name.size()] != '=') return false;
      into = argument.substr(name.size() + 1);
    } else if (at_ + 1 < argc_) {
      into = argv_[++at_];
    } else {
      command_.wrong = std::string(name) + " needs a value";
    }
    if (into.empty()) command_.wrong = std::string(name) + " needs a value";
    return true;
  }
  bool flag(std::string_view name, bool& into) {
    if (argv_[at_] != name) return false;
    into = true;
    return true;
  }
  bool thread_safe() {
    bool is = false;
    if (!flag("--threadsafe", is)) return false;
    command_.options.thread_safe = DAT_TRUE;
    return true;
  }
  // Reads "--name" or "--name=N".
  bool counted(std::string_view name, int& into, int otherwise, int low, int high) {
    const std::string_view argument(argv_[at_]);
    if (argument == name) {
      into = otherwise;
      return true;
    }
    if (argument.substr(0, name.size()) != name || argument.size() == name.size() ||
        argument[name.size()] != '=')
      return false;
    into = number(command_, name, argument.substr(name.size() + 1), low, high);
    return true;
  }

  int argc_;
  char** argv_;
  static inline char no_report_[] = "--report_level=no";
  static inline char no_colour_[] = "--color_output=no";
  int at_ = 0;
  Command command_;
};

}  // namespace

Command read_command(int argc, char** argv) { return Reader(argc, argv).read(); }

}  // namespace conformance
