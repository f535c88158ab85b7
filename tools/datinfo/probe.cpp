// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "probe.h"

#include <dlfcn.h>
#include <link.h>
#include <sys/resource.h>

#include <algorithm>
#include <memory>
#include <string_view>

#include "attributes.h"
#include "child.h"

namespace datinfo {

namespace {

constexpr std::size_t kMaxConcurrent = 4;

// The file from which the dynamic linker loaded a library; empty if it is not loaded.
std::string file_of(const std::string& library) {
  void* const handle = ::dlopen(library.c_str(), RTLD_LAZY | RTLD_NOLOAD);
  if (handle == nullptr) return {};
  const link_map* map = nullptr;
  const bool known = ::dlinfo(handle, RTLD_DI_LINKMAP, &map) == 0 && map->l_name != nullptr;
  std::string file = known ? map->l_name : "";
  ::dlclose(handle);
  return file;
}

// "open" or "fail", the status, the cause and the library, then names, values and kinds of
// attributes, then "end".
std::string answer_for(const Entry& entry) {
  std::string name = entry.ia_name;
  DAT_EVD_HANDLE async_evd = DAT_HANDLE_NULL;
  DAT_IA_HANDLE ia = DAT_HANDLE_NULL;
  DAT_RETURN status = dat_ia_openv(name.data(), 8, &async_evd, &ia, entry.major, entry.minor,
                                   entry.thread_safe ? DAT_TRUE : DAT_FALSE);
  std::string answer;
  Attributes attributes;
  if (status == DAT_SUCCESS) status = attributes_of(ia, attributes);
  const char* cause = "";
  dat_last_cause(status, &cause);
  put(answer, status == DAT_SUCCESS ? "open" : "fail");
  put(answer, name_of(status));
  put(answer, cause);
  put(answer, entry.library.empty() ? "" : file_of(entry.library));
  for (const auto& [key, value, kind] : attributes) {
    put(answer, key);
    put(answer, value);
    put(answer, kind == Attribute::Kind::kNumber ? "n"
                : kind == Attribute::Kind::kFlag ? "f"
                                                 : "t");
  }
  if (ia != DAT_HANDLE_NULL) dat_ia_close(ia, DAT_CLOSE_ABRUPT_FLAG);
  put(answer, "end");
  return answer;
}

// Returns false if the answer is incomplete.
bool parse(std::string_view rest, Outcome& outcome) {
  std::string word;
  Outcome parsed;
  if (!take(rest, word) || !take(rest, parsed.status) || !take(rest, parsed.cause) ||
      !take(rest, parsed.library))
    return false;
  parsed.opened = word == "open";
  for (;;) {
    std::string key;
    std::string value;
    if (!take(rest, key)) return false;
    if (rest.empty()) break;  // "end"
    std::string kind;
    if (!take(rest, value) || !take(rest, kind)) return false;
    parsed.attributes.push_back({key, value,
                                 kind == "n"   ? Attribute::Kind::kNumber
                                 : kind == "f" ? Attribute::Kind::kFlag
                                               : Attribute::Kind::kText});
  }
  if (parsed.opened) parsed.cause.clear();
  outcome = std::move(parsed);
  return true;
}

Outcome outcome_of(Child& child) {
  const Child::End end = child.end();
  Outcome outcome;
  if (!parse(end.answer, outcome)) outcome.cause = end.problem;
  outcome.output = end.output;
  return outcome;
}

// The number of children for which there are enough descriptors: two each, and some for other uses.
std::size_t concurrent_children() {
  constexpr rlim_t kOthers = 10;
  rlimit files{};
  if (::getrlimit(RLIMIT_NOFILE, &files) != 0 || files.rlim_cur <= kOthers) return 1;
  return std::clamp<std::size_t>((files.rlim_cur - kOthers) / 2, 1, kMaxConcurrent);
}

}  // namespace

std::vector<Outcome> probe(const std::vector<Entry>& entries, std::chrono::milliseconds limit) {
  const std::size_t at_once = concurrent_children();
  std::vector<Outcome> outcomes(entries.size());
  std::vector<std::unique_ptr<Child>> running;
  std::vector<std::size_t> which;  // entries of the running children
  std::size_t next = 0;
  while (next < entries.size() || !running.empty()) {
    for (; next < entries.size() && running.size() < at_once; ++next) {
      const Entry& entry = entries[next];
      running.push_back(std::make_unique<Child>([&entry] { return answer_for(entry); }, 0, limit));
      which.push_back(next);
    }
    serve(running);
    for (std::size_t i = running.size(); i-- > 0;) {
      if (!running[i]->done()) continue;
      outcomes[which[i]] = outcome_of(*running[i]);
      running.erase(running.begin() + static_cast<std::ptrdiff_t>(i));
      which.erase(which.begin() + static_cast<std::ptrdiff_t>(i));
    }
  }
  return outcomes;
}

}  // namespace datinfo
