// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "paths.h"
#include "../program.h"

#include <fmt/core.h>

#include <algorithm>

#include "../json.h"
#include "conf.h"
#include "local_pair.h"

namespace datinfo {

using tools::Json;
using tools::printable;
using Kind = LocalPath::Kind;

namespace {

struct Tried {
  Entry entry;
  LocalPath path;
};

const char* word(Kind kind) {
  switch (kind) {
    case Kind::kNone:
      return "none";
    case Kind::kNoChoice:
      return "adapter";
    case Kind::kTcp:
      return "tcp";
    case Kind::kRings:
      return "shm, rings only";
    case Kind::kShared:
      break;
  }
  return "shm";
}

std::string text_of(const LocalPath& path) {
  std::string text = word(path.kind);
  if (path.kind == Kind::kNoChoice) text += ": it is not the software RNIC";
  if (!path.reason.empty()) text += ": ";
  for (const char c : path.reason) c == '\n' ? text += "; " : text += c;
  return printable(text);
}

void print_table(const std::vector<Tried>& all) {
  std::size_t name = 4;
  std::size_t device = 6;
  for (const Tried& one : all) {
    name = std::max(name, one.entry.ia_name.size());
    device = std::max(device, one.entry.ia_params.size());
  }
  tools::print("{:<{}}  {:<{}}  PATH WITHIN THIS HOST\n", "NAME", name, "DEVICE", device);
  for (const auto& [entry, path] : all)
    tools::print("{:<{}}  {:<{}}  {}\n", printable(entry.ia_name), name, printable(entry.ia_params),
                 device, text_of(path));
}

void print_json(const Conf& conf, const std::vector<Tried>& all) {
  Json out;
  out.open('{').key("file").text(conf.file).key("adapters").open('[');
  for (const auto& [entry, path] : all) {
    const bool shared = path.kind == Kind::kRings || path.kind == Kind::kShared;
    out.open('{').key("name").text(entry.ia_name).key("line").number(entry.line);
    out.key("ia_params").text(entry.ia_params);
    out.key("path").text(shared ? "shm" : word(path.kind));
    out.key("direct").boolean(path.kind == Kind::kShared).key("reason").text(path.reason);
    out.close('}');
  }
  out.close(']').close('}');
  tools::print("{}\n", out.result());
}

// The entries with these names, each once: threads make no difference. A name without an entry gets
// a made-up one, so that the failed open explains what is missing.
std::vector<Entry> chosen(const Conf& conf, const std::vector<std::string>& names) {
  std::vector<Entry> entries;
  const auto add = [&](const Entry& entry) {
    const bool known = std::any_of(entries.begin(), entries.end(), [&](const Entry& other) {
      return other.ia_name == entry.ia_name && other.ia_params == entry.ia_params &&
             other.library == entry.library;
    });
    if (!known) entries.push_back(entry);
  };
  const std::vector<Entry> all = unique_keys(conf.entries);
  if (names.empty()) std::for_each(all.begin(), all.end(), add);
  for (const std::string& name : names) {
    const std::size_t before = entries.size();
    for (const Entry& entry : all)
      if (entry.ia_name == name) add(entry);
    if (entries.size() == before) add({0, name, 2, 0, false, "", ""});
  }
  return entries;
}

}  // namespace

int paths(const PathOptions& options) {
  const Conf conf = read_conf(std::nullopt);
  std::vector<Tried> all;
  for (const Entry& entry : chosen(conf, options.names))
    all.push_back({entry, try_local_pair(entry, options.limit)});
  if (options.json)
    print_json(conf, all);
  else
    print_table(all);
  const auto works = [](const Tried& one) { return one.path.kind != Kind::kNone; };
  const bool good = options.names.empty() ? std::any_of(all.begin(), all.end(), works)
                                          : std::all_of(all.begin(), all.end(), works);
  return good ? 0 : 1;
}

}  // namespace datinfo
