// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include <string>
#include <string_view>

namespace tools {

// Writes JSON, indented by two blanks. The caller is responsible for the order: key before value,
// and a close() for every open(). Texts are UTF-8; control characters, and bytes that are not
// UTF-8, are escaped one by one, so the result is valid for any input.
class Json {
 public:
  Json& open(char bracket) {
    element();
    out_ += bracket;
    ++depth_;
    first_ = true;
    return *this;
  }
  Json& close(char bracket) {
    --depth_;
    if (!first_) line();
    out_ += bracket;
    first_ = false;
    return *this;
  }
  Json& key(std::string_view name) {
    text(name);
    out_ += ": ";
    after_key_ = true;
    return *this;
  }
  Json& text(std::string_view value);
  Json& number(std::size_t value) { return word(std::to_string(value)); }
  Json& boolean(bool value) { return word(value ? "true" : "false"); }
  // Adds a value that is JSON already.
  Json& word(std::string_view value) {
    element();
    out_ += value;
    return *this;
  }
  [[nodiscard]] const std::string& result() const { return out_; }

 private:
  void line() {
    out_ += '\n';
    out_.append(2 * depth_, ' ');
  }
  void element() {
    if (!after_key_ && depth_ != 0) {
      if (!first_) out_ += ',';
      line();
    }
    after_key_ = false;
    first_ = false;
  }

  std::string out_;
  std::size_t depth_ = 0;
  bool first_ = true;
  bool after_key_ = false;
};

// Makes a text safe for a terminal: replaces everything but printable ASCII with '?'.
[[nodiscard]] std::string printable(std::string_view text);

}  // namespace tools
