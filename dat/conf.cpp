// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "dat/conf.h"

#include <array>
#include <charconv>
#include <optional>
#include <utility>

#include "dat/text.h"

namespace udapl::dat {

namespace {

constexpr std::size_t kMaxNameLength = 255;  // DAT_NAME_MAX_LENGTH without the terminator
constexpr std::size_t kFieldCount = 8;

constexpr std::array<std::string_view, kFieldCount> kFieldNames = {
    "ia_name",  "api_version",      "threadsafety", "default",
    "lib_path", "provider_version", "ia_params",    "platform_params"};

bool is_blank(char c) { return c == ' ' || c == '\t'; }

enum class TokenKind { kField, kEndOfLine, kUnterminated };

// Cuts one line (without its line end) into fields.
class LineTokens {
 public:
  explicit LineTokens(std::string_view line) : rest_(line) {}

  TokenKind next(std::string& field) {
    while (!rest_.empty() && is_blank(rest_.front())) rest_.remove_prefix(1);
    if (rest_.empty() || rest_.front() == '#') return TokenKind::kEndOfLine;
    field.clear();
    return rest_.front() == '"' ? quoted_field(field) : bare_field(field);
  }

 private:
  TokenKind quoted_field(std::string& field) {
    for (std::size_t i = 1; i < rest_.size(); ++i) {
      if (rest_[i] == '"') {
        rest_.remove_prefix(i + 1);
        return TokenKind::kField;
      }
      if (rest_[i] == '\\' && ++i == rest_.size()) break;
      field += rest_[i];
    }
    return TokenKind::kUnterminated;
  }

  // A quote inside a bare word is its last character; what follows is the next field.
  TokenKind bare_field(std::string& field) {
    std::size_t length = 0;
    while (length < rest_.size() && !is_blank(rest_[length]))
      if (rest_[length++] == '"') break;
    field.assign(rest_.substr(0, length));
    rest_.remove_prefix(length);
    return TokenKind::kField;
  }

  std::string_view rest_;
};

// Removes a decimal number from the front. Returns nullopt if there are no digits or the value is
// too large.
std::optional<std::uint32_t> take_number(std::string_view& text) {
  std::uint32_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc()) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return value;
}

struct Version {
  std::uint32_t major = 0;
  std::uint32_t minor = 0;
};

// "2.0" and nothing after it.
std::optional<Version> parse_version(std::string_view text) {
  const auto major = take_number(text);
  if (!major || text.empty() || text.front() != '.') return std::nullopt;
  text.remove_prefix(1);
  const auto minor = take_number(text);
  if (!minor || !text.empty()) return std::nullopt;
  return Version{*major, *minor};
}

// "dapl.2.0": an id that is not empty, then a version. The id may hold dots itself.
bool is_provider_version(std::string_view text) {
  const std::size_t minor_dot = text.rfind('.');
  if (minor_dot == std::string_view::npos || minor_dot == 0) return false;
  const std::size_t major_dot = text.rfind('.', minor_dot - 1);
  if (major_dot == std::string_view::npos || major_dot == 0) return false;
  return parse_version(text.substr(major_dot + 1)).has_value();
}

enum class Keyword { kNo, kExact, kPrefix };

Keyword match_keyword(std::string_view field, std::string_view keyword) {
  if (field == keyword) return Keyword::kExact;
  return field.starts_with(keyword) ? Keyword::kPrefix : Keyword::kNo;
}

// Reads one line and adds what it found to `conf`.
class LineParser {
 public:
  LineParser(std::string_view text, std::size_t line, Conf& conf) : tokens_(text), conf_(conf) {
    entry_.line = line;
  }

  void run() {
    if (!read_fields()) return;
    entry_.ia_name = fields_[0];
    if (!check_name() || !read_api_version() || !read_thread_safety() || !read_default() ||
        !check_rest())
      return;
    if (kernel_ || nondefault_) {
      say(ConfIssue::kSkipped,
          kernel_ ? "api_version " + in_quotes(fields_[1]) + " is a kernel provider, ignored"
                  : std::string("marked nondefault, ignored"));
      return;
    }
    entry_.library_path = std::move(fields_[4]);
    entry_.provider_version = std::move(fields_[5]);
    entry_.ia_params = std::move(fields_[6]);
    entry_.platform_params = std::move(fields_[7]);
    conf_.entries.push_back(std::move(entry_));
  }

 private:
  bool read_fields() {
    std::string extra;
    for (std::size_t i = 0; i <= kFieldCount; ++i) {
      std::string& field = i < kFieldCount ? fields_[i] : extra;
      switch (tokens_.next(field)) {
        case TokenKind::kUnterminated:
          return bad("quoted string does not end on the line");
        case TokenKind::kEndOfLine:
          if (i == 0 || i == kFieldCount) return i != 0;
          return bad("only " + std::to_string(i) + " of 8 fields, " + std::string(kFieldNames[i]) +
                     " is missing");
        case TokenKind::kField:
          if (field.find('\0') != std::string::npos) return bad("contains a NUL character");
          if (i == 0) entry_.ia_name = field;
          break;
      }
    }
    return bad("more than 8 fields, the first superfluous one is " + in_quotes(extra));
  }

  bool check_name() {
    if (entry_.ia_name.size() <= kMaxNameLength) return true;
    return bad("ia_name has " + std::to_string(entry_.ia_name.size()) + " characters, 255 fit");
  }

  bool read_api_version() {
    const std::string& field = fields_[1];
    const char kind = field.empty() ? '\0' : field.front();
    if (kind != 'u' && kind != 'k') return wrong(1, "u<major>.<minor> as in u2.0");
    const auto version = parse_version(std::string_view(field).substr(1));
    if (!version) return wrong(1, "u<major>.<minor> as in u2.0");
    entry_.major = version->major;
    entry_.minor = version->minor;
    kernel_ = kind == 'k';
    return true;
  }

  bool read_thread_safety() {
    return read_keyword(2, "threadsafe", "nonthreadsafe", entry_.thread_safe);
  }

  bool read_default() {
    bool is_default = false;
    if (!read_keyword(3, "default", "nondefault", is_default)) return false;
    nondefault_ = !is_default;
    return true;
  }

  bool check_rest() {
    return is_provider_version(fields_[5]) || wrong(5, "<id>.<major>.<minor> as in dapl.2.0");
  }

  // Existing files rely on text after the keyword being ignored, so that is only worth a remark.
  bool read_keyword(std::size_t index, std::string_view yes, std::string_view no, bool& value) {
    const std::string& field = fields_[index];
    const Keyword is_yes = match_keyword(field, yes);
    const Keyword is_no = match_keyword(field, no);
    if (is_yes == Keyword::kNo && is_no == Keyword::kNo)
      return wrong(index, std::string(yes) + " or " + std::string(no));
    value = is_yes != Keyword::kNo;
    if (is_yes != Keyword::kExact && is_no != Keyword::kExact)
      say(ConfIssue::kTolerated, std::string(kFieldNames[index]) + " " + in_quotes(field) +
                                     " taken as " + std::string(value ? yes : no));
    return true;
  }

  bool wrong(std::size_t index, const std::string& expected) {
    return bad(std::string(kFieldNames[index]) + " is " + in_quotes(fields_[index]) +
               ", expected " + expected);
  }

  bool bad(std::string reason) {
    say(ConfIssue::kMalformed, std::move(reason));
    return false;
  }

  void say(ConfIssue issue, std::string reason) {
    conf_.diagnostics.push_back({entry_.line, issue, entry_.ia_name, std::move(reason)});
  }

  LineTokens tokens_;
  Conf& conf_;
  ConfEntry entry_;
  std::array<std::string, kFieldCount> fields_;
  bool kernel_ = false;
  bool nondefault_ = false;
};

}  // namespace

Conf parse_conf(std::string_view text) {
  Conf conf;
  for (std::size_t line = 1; !text.empty(); ++line) {
    const std::size_t end = text.find('\n');
    std::string_view content = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    if (content.ends_with('\r')) content.remove_suffix(1);
    LineParser(content, line, conf).run();
  }
  return conf;
}

}  // namespace udapl::dat
