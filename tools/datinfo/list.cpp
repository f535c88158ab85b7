// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "list.h"
#include "../program.h"
#include "../registry.h"

#include <fmt/core.h>

#include <algorithm>
#include <set>
#include <string_view>

#include "../json.h"
#include "conf.h"
#include "machine.h"
#include "probe.h"

namespace datinfo {

using tools::Json;
using tools::printable;

namespace {

struct Adapter {
  Entry entry;
  Outcome outcome;
};

std::vector<std::string> lines_of(std::string_view text) {
  std::vector<std::string> lines;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    lines.emplace_back(text.substr(0, end));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  return lines;
}

// OpenFabrics providers begin a line with "<host>:<tag>:<pid>:<thread>: <time> us(<time> us): ".
std::string without_prefix(const std::string& line) {
  const std::size_t time = line.find(" us(");
  const std::size_t end = time == std::string::npos ? time : line.find("): ", time);
  if (end == std::string::npos) return line;
  const std::size_t text = line.find_first_not_of(' ', end + 3);
  return text == std::string::npos ? line : line.substr(text);
}

// Shortens "did not open <device>", as the table already shows the device.
void drop_device(std::string& line, const std::string& device) {
  const std::string text = " did not open \"" + printable(device) + "\":";
  if (const std::size_t at = line.find(text); at != std::string::npos)
    line.replace(at, text.size(), " did not open it:");
}

// The reasons in a cause, without its headline, indentation and line numbers: those differ between
// entries that fail for the same reason.
std::vector<std::string> reasons_of(const Adapter& adapter, const std::string& file) {
  const Outcome& outcome = adapter.outcome;
  std::vector<std::string> lines = lines_of(outcome.cause);
  if (lines.size() > 1 && lines.front().starts_with("cannot open ")) lines.erase(lines.begin());
  for (std::string& line : lines) {
    if (line.starts_with("  ")) line.erase(0, 2);
    const std::string place = file + " line ";
    if (!file.empty() && line.starts_with(place))
      if (const std::size_t colon = line.find(": ", place.size()); colon != std::string::npos)
        line.erase(0, colon + 2);
    line = printable(line);
    drop_device(line, adapter.entry.ia_params);
  }
  auto before_advice = std::find_if(lines.begin(), lines.end(), [](const std::string& line) {
    return line.starts_with("try: ");
  });
  // The registry's own records repeat the cause.
  for (const std::string& line : lines_of(outcome.output))
    if (!line.empty() && !line.starts_with("dat: "))
      before_advice =
          1 + lines.insert(before_advice, "the provider wrote: " + printable(without_prefix(line)));
  return lines;
}

const char* thread_word(const Entry& entry) {
  return entry.thread_safe ? "threadsafe" : "nonthreadsafe";
}

std::string attribute(const Outcome& outcome, std::string_view name) {
  for (const Attribute& one : outcome.attributes)
    if (one.name == name) return one.value;
  return {};
}

// Prints which file was loaded as the library of an entry, if the dynamic linker had to find it.
void print_libraries(const std::vector<Adapter>& adapters) {
  std::set<std::pair<std::string, std::string>> reported;
  for (const auto& [entry, outcome] : adapters)
    if (!outcome.library.empty() && outcome.library != entry.library &&
        reported.emplace(entry.library, outcome.library).second)
      tools::print("library {}: {}\n", printable(entry.library), printable(outcome.library));
}

void print_summary(const std::vector<Adapter>& adapters) {
  std::size_t name = 4;
  std::size_t library = 7;
  std::size_t device = 6;
  for (const Adapter& one : adapters) {
    name = std::max(name, one.entry.ia_name.size());
    library = std::max(library, one.entry.library.size());
    device = std::max(device, one.entry.ia_params.size());
  }
  tools::print("{:<{}}  VERSION  {:<13}  {:<{}}  {:<{}}  OPENS\n", "NAME", name, "THREADS",
               "LIBRARY", library, "DEVICE", device);
  for (const auto& [entry, outcome] : adapters) {
    const std::string state =
        outcome.opened
            ? "yes: " + attribute(outcome, "adapter_name") + ' ' + attribute(outcome, "address")
            : "no" + (outcome.status.empty() ? "" : ": " + outcome.status);
    tools::print("{:<{}}  {:<7}  {:<13}  {:<{}}  {:<{}}  {}\n", printable(entry.ia_name), name,
                 fmt::format("{}.{}", entry.major, entry.minor), thread_word(entry),
                 printable(entry.library), library, printable(entry.ia_params), device,
                 printable(state));
  }
}

// Prints each reason once, with all entries that fail for it: in a shipped file those are most.
void print_causes(const std::vector<Adapter>& adapters, const std::string& file) {
  std::vector<std::pair<std::vector<std::string>, std::vector<std::string>>> groups;
  for (const Adapter& adapter : adapters) {
    if (adapter.outcome.opened) continue;
    std::vector<std::string> reasons = reasons_of(adapter, file);
    const auto same = std::find_if(groups.begin(), groups.end(),
                                   [&](const auto& group) { return group.first == reasons; });
    std::vector<std::string>& names =
        same != groups.end() ? same->second : groups.emplace_back(reasons, 0).second;
    const Entry& entry = adapter.entry;
    std::string name = (entry.ia_name.empty() ? "\"\"" : printable(entry.ia_name)) +
                       (entry.thread_safe ? " (threadsafe)" : "");
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  }
  for (const auto& [reasons, names] : groups) {
    std::string heading;
    std::size_t column = 0;
    for (const std::string& name : names) {
      if (!heading.empty()) heading += ',';
      if (column + name.size() > 90) {
        heading += '\n';
        column = 0;
      } else if (!heading.empty()) {
        heading += ' ';
      }
      heading += name;
      column += name.size() + 2;
    }
    tools::print("\n{}\n", heading);
    for (const std::string& reason : reasons) tools::print("  {}\n", reason);
  }
}

void print_attributes(const Adapter& adapter) {
  std::size_t width = 0;
  for (const Attribute& one : adapter.outcome.attributes) width = std::max(width, one.name.size());
  tools::print("\n{} ({})\n", printable(adapter.entry.ia_name), thread_word(adapter.entry));
  for (const Attribute& one : adapter.outcome.attributes)
    tools::print("  {:<{}}  {}\n", printable(one.name), width, printable(one.value));
}

// RDMA ports that no entry names, neither by device nor by network interface.
std::vector<std::string> ports_without_entry(const std::vector<RdmaPort>& ports,
                                             const std::vector<Entry>& entries) {
  std::vector<std::string> lines;
  for (const RdmaPort& port : ports) {
    const auto names_it = [&](const Entry& entry) {
      const std::string device = entry.ia_params.substr(0, entry.ia_params.find_first_of(" \t"));
      return device == port.netdev || device == port.device;
    };
    if (std::none_of(entries.begin(), entries.end(), names_it))
      lines.push_back(
          fmt::format("{} port {} has no entry; try: datinfo generate", port.device, port.port));
  }
  return lines;
}

void print_json(const Conf& conf, const std::vector<Adapter>& adapters,
                const std::vector<std::string>& remarks) {
  Json out;
  out.open('{')
      .key("file")
      .text(conf.file)
      .key("registry")
      .text(tools::registry_file())
      .key("remarks")
      .open('[');
  for (const std::string& line : remarks) out.text(line);
  out.close(']').key("adapters").open('[');
  for (const Adapter& adapter : adapters) {
    const auto& [entry, outcome] = adapter;
    out.open('{').key("name").text(entry.ia_name).key("line").number(entry.line);
    out.key("version").text(fmt::format("{}.{}", entry.major, entry.minor));
    out.key("threadsafe").boolean(entry.thread_safe).key("library").text(entry.library);
    out.key("library_file").text(outcome.library);
    out.key("ia_params").text(entry.ia_params).key("opens").boolean(outcome.opened);
    out.key("status").text(outcome.status).key("causes").open('[');
    std::vector<std::string> advice;
    for (const std::string& line : reasons_of(adapter, conf.file)) {
      if (line.starts_with("try: "))
        advice.push_back(line.substr(5));
      else if (!outcome.opened)
        out.text(line);
    }
    out.close(']').key("advice").open('[');
    for (const std::string& line : advice) out.text(line);
    out.close(']').key("attributes").open('{');
    for (const auto& [key, value, kind] : outcome.attributes) {
      out.key(key);
      if (kind == Attribute::Kind::kNumber)
        out.word(value);
      else if (kind == Attribute::Kind::kFlag)
        out.boolean(value == "yes");
      else
        out.text(value);
    }
    out.close('}').close('}');
  }
  out.close(']').close('}');
  tools::print("{}\n", out.result());
}

// The entries with these names. A name without an entry gets a made-up one, so that the failed open
// explains what is missing.
std::vector<Entry> chosen(const Conf& conf, const std::vector<std::string>& names) {
  const std::vector<Entry> all = unique_keys(conf.entries);
  if (names.empty()) return all;
  std::vector<Entry> entries;
  for (const std::string& name : names) {
    const std::size_t before = entries.size();
    std::copy_if(all.begin(), all.end(), std::back_inserter(entries),
                 [&](const Entry& entry) { return entry.ia_name == name; });
    if (entries.size() == before) entries.push_back({0, name, 2, 0, false, "", ""});
  }
  return entries;
}

}  // namespace

int list(const ListOptions& options) {
  const Conf conf = read_conf(std::nullopt);
  const std::vector<Entry> entries = chosen(conf, options.names);
  std::vector<Outcome> outcomes = probe(entries, options.limit);
  std::vector<Adapter> adapters;
  for (std::size_t i = 0; i < entries.size(); ++i)
    adapters.push_back({entries[i], std::move(outcomes[i])});

  std::vector<std::string> remarks;
  for (const Remark& remark : conf.remarks)
    if (remark.kind == DAT_CONF_ERROR || remark.kind == DAT_CONF_FILE)
      remarks.push_back(remark.line == 0
                            ? remark.file + ": " + remark.text
                            : fmt::format("{}:{}: {}", remark.file, remark.line, remark.text));
  const std::vector<RdmaPort> ports = rdma_ports(options.sysfs);
  for (const auto& more :
       {obstacles(options.dev, !ports.empty()), ports_without_entry(ports, conf.entries)})
    remarks.insert(remarks.end(), more.begin(), more.end());

  const auto opens = [](const Adapter& one) { return one.outcome.opened; };
  const int status = options.names.empty()
                         ? (std::any_of(adapters.begin(), adapters.end(), opens) ? 0 : 1)
                         : (std::all_of(adapters.begin(), adapters.end(), opens) ? 0 : 1);
  if (options.json) {
    print_json(conf, adapters, remarks);
    return status;
  }
  tools::print("configuration: {}\n", conf.file.empty() ? "none" : conf.file);
  tools::print("registry: {}\n", tools::registry_file());
  print_libraries(adapters);
  for (const std::string& line : remarks) tools::print("{}\n", printable(line));
  if (conf.entries.empty())
    tools::print(
        "no entries; try: datinfo generate > FILE, then DAT_OVERRIDE=FILE in the "
        "environment\n");
  if (!adapters.empty()) {
    tools::print("\n");
    print_summary(adapters);
    print_causes(adapters, conf.file);
  }
  for (const Adapter& one : adapters)
    if (one.outcome.opened && (options.attributes || !options.names.empty())) print_attributes(one);
  return status;
}

}  // namespace datinfo
