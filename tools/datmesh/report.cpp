// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "report.h"

#include "../datperf/statistics.h"
#include "../json.h"
#include "../program.h"

#include <algorithm>
#include <map>

namespace datmesh {

namespace {

constexpr std::size_t kNamed = 8;  // findings of one kind that the text lists

template <typename Value>
std::vector<double> values_of(const Mesh& mesh, Value value) {
  std::vector<double> values;
  for (const Rank& rank : mesh.ranks)
    for (const Link& link : rank.links)
      if (link.problem.empty() && link.*value > 0) values.push_back(link.*value);
  return values;
}

std::string line_of(const char* what, const char* unit, const datperf::Distribution& values) {
  return fmt::format("{}: median {:.1f} {}, from {:.1f} to {:.1f}\n", what, values.median, unit,
                     values.minimum, values.maximum);
}

std::string list_of(const char* title, const char* joint, const Mesh& mesh,
                    const std::vector<Finding>& findings) {
  std::string text;
  for (std::size_t i = 0; i < std::min(findings.size(), kNamed); ++i)
    text += fmt::format("{}: {} {} {}: {}\n", title, name_of(mesh, findings[i].from), joint,
                        name_of(mesh, findings[i].to), findings[i].what);
  if (findings.size() > kNamed)
    text += fmt::format("{}: {} more\n", title, findings.size() - kNamed);
  return text;
}

// If hosts have several ranks: the pairs of hosts with more than one finding, the most frequent
// first.
std::string hosts_of(const char* title, const char* joint, const Mesh& mesh,
                     const std::vector<Finding>& findings) {
  std::map<std::pair<std::string, std::string>, std::size_t> counts;
  for (const Finding& finding : findings)
    ++counts[{mesh.ranks[finding.from].host, mesh.ranks[finding.to].host}];
  std::vector<std::pair<std::size_t, std::string>> lines;
  for (const auto& [hosts, count] : counts)
    if (count > 1 && hosts.first != hosts.second)
      lines.emplace_back(count, fmt::format("{}: {} {} {}: {} of their pairs\n", title, hosts.first,
                                            joint, hosts.second, count));
  std::stable_sort(lines.begin(), lines.end(),
                   [](const auto& one, const auto& other) { return one.first > other.first; });
  std::string text;
  for (std::size_t i = 0; i < std::min(lines.size(), kNamed); ++i) text += lines[i].second;
  return text;
}

void add_findings(tools::Json& json, const std::vector<Finding>& findings) {
  json.open('[');
  for (const Finding& finding : findings)
    json.open('{')
        .key("from")
        .number(finding.from)
        .key("to")
        .number(finding.to)
        .key("what")
        .text(finding.what)
        .close('}');
  json.close(']');
}

template <typename Value>
void add_matrix(tools::Json& json, const Mesh& mesh, Value value) {
  json.open('[');
  for (const Rank& rank : mesh.ranks) {
    std::string row = "[";
    for (const Link& link : rank.links)
      row += fmt::format("{}{:.2f}", row.size() > 1 ? ", " : "", link.*value);
    json.word(row + "]");
  }
  json.close(']');
}

}  // namespace

std::string name_of(const Mesh& mesh, std::uint32_t rank) {
  return fmt::format("rank {} ({})", rank, mesh.ranks[rank].host);
}

std::vector<Finding> failures_of(const Mesh& mesh) {
  std::vector<Finding> findings;
  for (std::uint32_t from = 0; from < mesh.ranks.size(); ++from)
    for (std::uint32_t to = from + 1; to < mesh.ranks.size(); ++to) {
      const std::string& one = mesh.ranks[from].links[to].problem;
      const std::string& other = mesh.ranks[to].links[from].problem;
      if (!one.empty() || !other.empty()) findings.push_back({from, to, one.empty() ? other : one});
    }
  return findings;
}

std::vector<Finding> slow_of(const Mesh& mesh) {
  const double median = datperf::median_of(values_of(mesh, &Link::rate));
  std::vector<std::pair<double, Finding>> slow;
  for (std::uint32_t from = 0; from < mesh.ranks.size(); ++from)
    for (std::uint32_t to = 0; to < mesh.ranks.size(); ++to) {
      const Link& link = mesh.ranks[from].links[to];
      if (link.problem.empty() && link.rate > 0 && link.rate < mesh.options.slow * median)
        slow.push_back(
            {link.rate,
             {from, to,
              fmt::format("{:.1f} MB/s, {:.2f} of the median", link.rate, link.rate / median)}});
    }
  std::sort(slow.begin(), slow.end(),
            [](const auto& one, const auto& other) { return one.first < other.first; });
  std::vector<Finding> findings;
  for (const auto& [rate, finding] : slow) findings.push_back(finding);
  return findings;
}

std::string text_of(const Mesh& mesh) {
  const std::size_t ranks = mesh.ranks.size();
  const std::vector<Finding> failures = failures_of(mesh);
  std::string text = fmt::format("{} ranks, {} pairs, {} failed\n", ranks, ranks * (ranks - 1) / 2,
                                 failures.size());
  text += line_of("connection set-up", "us",
                  datperf::distribution_of(values_of(mesh, &Link::setup_us)));
  text += line_of("RDMA Writes", "MB/s", datperf::distribution_of(values_of(mesh, &Link::rate)));
  const std::vector<Finding> slow = slow_of(mesh);
  return text + hosts_of("failed", "and", mesh, failures) +
         list_of("failed", "and", mesh, failures) + hosts_of("slow", "to", mesh, slow) +
         list_of("slow", "to", mesh, slow);
}

std::string json_of(const Mesh& mesh) {
  tools::Json json;
  json.open('{').key("program").text(tools::version_of("datmesh"));
  json.key("command").text(mesh.command).key("date").text(mesh.date);
  json.key("hosts").open('[');
  for (const Rank& rank : mesh.ranks) json.text(rank.host);
  json.close(']');
  json.key("failed");
  add_findings(json, failures_of(mesh));
  json.key("slow");
  add_findings(json, slow_of(mesh));
  json.key("setup_us");
  add_matrix(json, mesh, &Link::setup_us);
  json.key("mb_per_s");
  add_matrix(json, mesh, &Link::rate);
  return json.close('}').result() + "\n";
}

}  // namespace datmesh
