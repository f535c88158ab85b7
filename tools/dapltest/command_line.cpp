// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// Parses the words of a command line into Options.
#include "../program.h"
#include "options.h"
#include "usage.h"
#include "words.h"

#include <fmt/core.h>

#include <cstdio>
#include <optional>

namespace dapltest {
namespace {

// Parses the words of a command line. Keeps the first error only.
class Parser {
 public:
  explicit Parser(std::vector<std::string> words) : words_(std::move(words)) {}

  bool parse() {
    if (!choose_test()) {
      return false;
    }
    while (error_.empty() && at_ < words_.size()) {
      const std::string word = words_[at_++];
      if (word.starts_with("--")) {
        long_option(word);
      } else if (word.size() > 1 && word[0] == '-') {
        short_options(word);
      } else {
        operand(word);
      }
    }
    if (error_.empty() && !help_ && !version_) {
      finish();
    }
    return error_.empty();
  }

  [[nodiscard]] bool help() const { return help_; }
  [[nodiscard]] bool version() const { return version_; }
  [[nodiscard]] const std::string& error() const { return error_; }
  [[nodiscard]] Options& options() { return options_; }

 private:
  static bool is_help(const std::string& word) { return word == "--help" || word == "-h"; }

  bool choose_test() {
    if (words_.empty() || is_help(words_[0]) || !words_[0].starts_with("-T")) {
      return true;  // a server
    }
    std::string letter = words_[at_++].substr(2);
    if (letter.empty() && at_ < words_.size()) {
      letter = words_[at_++];
    }
    static constexpr char kLetters[] = "STPLFQ";
    const std::size_t found = std::string(kLetters).find(letter);
    if (letter.size() != 1 || found == std::string::npos) {
      error_ = fmt::format("-T{}{}: not a test; must be one of S, T, P, L, F and Q",
                           letter.empty() ? "" : " ", letter);
      return false;
    }
    options_.test = static_cast<Test>(found);
    return true;
  }

  // The options of each test, with a colon if they take a value.
  [[nodiscard]] const char* letters() const {
    switch (options_.test) {
      case Test::kServer:
        return "D:n:R:dh";
      case Test::kTransaction:
        return "s:D:n:i:t:w:VPQrR:dvh";
      case Test::kPerformance:
        return "s:D:n:i:m:p:dR:h";
      case Test::kLimit:
        return "D:w:m:dR:n:h";
      case Test::kFeature:
        return "D:s:i:t:v:R:n:f:dh";
      case Test::kQuit:
        return "s:D:n:R:dh";
    }
    return "";
  }

  void long_option(const std::string& word) {
    const std::size_t equals = word.find('=');
    const std::string key = word.substr(0, equals);
    if (key == "--json") {
      options_.json = true;
    } else if (key == "--quiet") {
      options_.quiet = true;
    } else if (key == "--help") {
      help_ = true;
    } else if (key == "--version") {
      version_ = true;
    } else if (key == "--timeout") {
      std::string value = equals == std::string::npos ? "" : word.substr(equals + 1);
      if (equals == std::string::npos && at_ < words_.size()) {
        value = words_[at_++];
      }
      set_number(key, value, 1, 3600, options_.timeout_s);
    } else {
      error_ = fmt::format("{}: no such option", word);
    }
  }

  // Parses options like -dVP, -n 45000 and -n45000.
  void short_options(const std::string& word) {
    for (std::size_t i = 1; i < word.size() && error_.empty(); ++i) {
      const std::string allowed = letters();
      const std::size_t found = word[i] == ':' ? std::string::npos : allowed.find(word[i]);
      if (word[i] == 'f' && options_.test == Test::kTransaction && word.size() == 2) {
        return reap_on_receive();
      }
      if (found == std::string::npos) {
        error_ = fmt::format("-{}: the {} test has no such option", word[i], name(options_.test));
        return;
      }
      if (found + 1 == allowed.size() || allowed[found + 1] != ':') {
        flag(word[i]);
        continue;
      }
      std::string value = word.substr(i + 1);
      if (value.empty()) {
        if (at_ == words_.size()) {
          error_ = fmt::format("-{} needs a value", word[i]);
          return;
        }
        value = words_[at_++];
      }
      return option_with_value(word[i], value);
    }
  }

  void reap_on_receive() {
    if (options_.operations.empty() || options_.operations.back().transfer != Transfer::kSend) {
      error_ = "-f has to follow an SR operation";
      return;
    }
    options_.operations.back().reap_on_receive = true;
  }

  void flag(char letter) {
    switch (letter) {
      case 'd':
        ++options_.debug;
        break;
      case 'V':
        options_.validate = true;
        break;
      case 'P':
        options_.poll = true;
        break;
      case 'Q':
        options_.cno = true;
        break;
      case 'r':
        options_.reserved_point = true;
        break;
      case 'h':
        help_ = true;
        break;
      default:  // 'v' of the transaction test: accepted without effect, as in the original
        break;
    }
  }

  void option_with_value(char letter, const std::string& value) {
    const std::string option{'-', letter};
    switch (letter) {
      case 's':
        return set_name(option, value, options_.server);
      case 'D':
        return set_name(option, value, options_.device);
      case 'n':
        return set_number(option, value, 1, 65535, options_.port);
      case 'i':
        return set_number(option, value, 1, 1'000'000'000, options_.iterations);
      case 't':
        return set_number(option, value, 1, 64, options_.threads);
      case 'w':
        return set_number(option, value, 1, 1000,
                          options_.test == Test::kLimit ? options_.width : options_.endpoints);
      case 'v':
        return set_number(option, value, 1, 1000, options_.endpoints);
      case 'p':
        return set_number(option, value, 0, 1'000'000, options_.pipeline);
      case 'f':
        options_.feature = value;
        return;
      case 'R':
        if (const auto qos = qos_of(value))
          options_.qos = *qos;
        else
          error_ = fmt::format("-R {}: must be one of BE, HT, LL, EC and PM", value);
        return;
      case 'm':
        if (options_.test == Test::kLimit) {
          return set_number(option, value, 1, 10'000'000, options_.maximum);
        }
        if (value != "b" && value != "p") {
          error_ = fmt::format("-m {}: must be b (blocking) or p (polling)", value);
          return;
        }
        options_.poll = value == "p";
        return;
      default:
        error_ = fmt::format("{}: no such option", option);
    }
  }

  void set_name(const std::string& option, const std::string& value, std::string& to) {
    if (value.empty() || value.size() >= DAT_NAME_MAX_LENGTH) {
      error_ = fmt::format("{}: a name has 1 to 255 characters", option);
      return;
    }
    to = value;
  }

  void set_number(const std::string& option, const std::string& text, std::uint32_t least,
                  std::uint32_t most, std::uint32_t& to) {
    const auto value = number(text);
    if (!value || *value < least || *value > most) {
      error_ = fmt::format("{} {}: must be a number from {} to {}", option, text, least, most);
      return;
    }
    to = *value;
  }

  void operand(const std::string& word) {
    switch (options_.test) {
      case Test::kTransaction:
        if (word != "client" && word != "server") {
          error_ = fmt::format("'{}': an operation begins with client or server", word);
          return;
        }
        if (at_ == words_.size()) {
          error_ = fmt::format("'{}' must be followed by SR, RR or RW", word);
          return;
        }
        return operation(word == "server", words_[at_++]);
      case Test::kPerformance:
        if (!options_.operations.empty()) {
          error_ = fmt::format("'{}': a performance test has one operation", word);
          return;
        }
        return operation(false, word);
      case Test::kLimit:
        if (!is_one_of(word, limit_names())) {
          error_ = fmt::format("'{}': no such limit", word);
          return;
        }
        options_.limits.push_back(word);
        return;
      case Test::kFeature: {
        const auto value = word.starts_with("case") ? number(word.substr(4)) : std::nullopt;
        if (!value) {
          error_ = fmt::format("'{}': a case is case0, case1, ...", word);
          return;
        }
        options_.cases.push_back(*value);
        return;
      }
      default:
        error_ = fmt::format("'{}' is too much", word);
    }
  }

  void operation(bool by_server, const std::string& kind) {
    Operation result;
    result.by_server = by_server;
    if (kind == "SR") {
      result.transfer = Transfer::kSend;
    } else if (kind == "RR") {
      result.transfer = Transfer::kRead;
    } else if (kind == "RW") {
      result.transfer = Transfer::kWrite;
    } else {
      error_ = fmt::format("'{}': an operation is SR, RR or RW", kind);
      return;
    }
    for (std::uint32_t* to : {&result.segment_size, &result.segments}) {
      if (at_ == words_.size() ||
          words_[at_].find_first_not_of("0123456789") != std::string::npos) {
        break;
      }
      set_number(kind, words_[at_++], 1, UINT32_MAX, *to);
    }
    options_.operations.push_back(result);
  }

  void finish() {
    const bool needs_server = options_.test == Test::kTransaction ||
                              options_.test == Test::kPerformance || options_.test == Test::kQuit;
    if (needs_server && options_.server.empty()) {
      error_ = "-s is missing: the name or address of the server";
      return;
    }
    if (options_.test == Test::kFeature && !is_one_of(options_.feature, feature_names())) {
      error_ = options_.feature.empty() ? std::string("-f is missing: the feature to test")
                                        : fmt::format("-f {}: no such feature", options_.feature);
      return;
    }
    if (options_.test == Test::kTransaction && options_.validate) {
      for (const bool by_server : {true, false, true}) {
        options_.operations.push_back({by_server, Transfer::kSend, 4096, 1, false});
      }
    }
    error_ = check_command(options_);
  }

  std::vector<std::string> words_;
  std::size_t at_ = 0;
  Options options_;
  std::string error_;
  bool help_ = false;
  bool version_ = false;
};

}  // namespace

Parsed parse(std::vector<std::string> arguments) {
  Parsed result;
  if (!read_script(arguments)) {
    result.exit_status = 2;
    return result;
  }
  Parser parser(std::move(arguments));
  if (!parser.parse()) {
    tools::print(stderr, "dapltest: {}\nTry 'dapltest --help'.\n", parser.error());
    result.exit_status = 2;
  } else if (parser.help()) {
    tools::print("{}", kUsage);
    result.exit_status = 0;
  } else if (parser.version()) {
    tools::print("{}\n", tools::version_of("dapltest"));
    result.exit_status = 0;
  }
  result.options = parser.options();
  return result;
}

}  // namespace dapltest
