// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// datmesh - connects every rank of a job to every other over DAT, verifies data, measures, and
// draws a heat map.
#include "../program.h"
#include "../real_range.h"
#include "node.h"
#include "report.h"

#include <fcntl.h>
#include <sched.h>
#include <unistd.h>
#include <CLI/CLI.hpp>

#include <ctime>
#include <fstream>

namespace {

using namespace datmesh;

constexpr const char* kHostKey = "datmesh.host";
constexpr const char* kLinksKey = "datmesh.links";

void wait_a_little() { ::usleep(500); }

// Must follow the PMIx set-up: the PMIx server is in the network namespace in which the process was
// started.
void enter_netns(const std::string& name) {
  const std::string path = name.find('/') == std::string::npos ? "/run/netns/" + name : name;
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  const bool good = fd >= 0 && ::setns(fd, CLONE_NEWNET) == 0;
  const int error = errno;
  if (fd >= 0) ::close(fd);
  if (!good) throw JobError(path + ": " + std::strerror(error));
}

std::string host_name() {
  char name[256] = "?";
  ::gethostname(name, sizeof name - 1);
  return name;
}

std::string now() {
  const std::time_t time = std::time(nullptr);
  std::tm parts{};
  char text[32] = "";
  if (::gmtime_r(&time, &parts) != nullptr)
    std::strftime(text, sizeof text, "%Y-%m-%d %H:%M UTC", &parts);
  return text;
}

bool save(const std::string& name, const std::string& text) {
  if (name.empty()) return true;
  errno = 0;
  std::ofstream file(name, std::ios::binary | std::ios::trunc);
  file << text;
  file.close();
  if (file) return true;
  tools::print(stderr, "datmesh: {}: {}\n", name, std::strerror(errno != 0 ? errno : EIO));
  return false;
}

// Runs on rank 0, which collects the results of all ranks.
int report(Job& job, const Options& options, const std::string& command) {
  Mesh mesh{now(), command, options, {}};
  for (std::uint32_t rank = 0; rank < job.size(); ++rank)
    mesh.ranks.push_back({job.get(rank, kHostKey), unpacked(job.get(rank, kLinksKey), job.size())});
  for (std::uint32_t rank = 0; rank < job.size(); ++rank) mesh.ranks[rank].links[rank] = {};
  tools::print("{}", text_of(mesh));
  const bool saved = save(options.json, options.json.empty() ? "" : json_of(mesh)) &&
                     save(options.html, options.html.empty() ? "" : html_of(mesh));
  return saved && failures_of(mesh).empty() ? 0 : 1;
}

int run(const Options& options, const std::string& command) {
  Job job;
  std::string netns = options.netns;
  if (const auto at = netns.find('%'); at != std::string::npos) {
    const auto count = std::strtoul(netns.c_str() + at + 1, nullptr, 10);
    if (count == 0) throw JobError("--netns: a number has to follow the %");
    netns = netns.substr(0, at) + std::to_string(job.rank() * count / job.size());
  }
  if (!netns.empty()) enter_netns(netns);
  job.put(kHostKey, netns.empty() ? host_name() : netns);
  {
    Node node(job, options);
    node.connect_all();
    node.measure_all();
    job.put(kLinksKey, packed(node.links()));
    job.fence(wait_a_little);
  }
  const int status = job.rank() == 0 ? report(job, options, command) : 0;
  job.fence(wait_a_little);
  return status;
}

void add_options(CLI::App& app, Options& options) {
  app.add_option("--ia", options.ia, "Adapter, as in dat.conf")->capture_default_str();
  app.add_option("--port", options.port, "Connection qualifier of rank 0, others follow")
      ->capture_default_str()
      ->check(CLI::Range(1, 60000));
  app.add_option("--timeout", options.timeout_s, "Seconds to wait for a peer")
      ->capture_default_str()
      ->check(CLI::Range(1, 3600));
  app.add_option("--size", options.size, "Bytes of an RDMA Write")
      ->capture_default_str()
      ->check(CLI::Range(1U, 16U << 20));
  app.add_option("--count", options.count, "Writes of each direction of a pair")
      ->capture_default_str()
      ->check(CLI::Range(1U, 1'000'000U));
  app.add_option("--window", options.window, "Writes in flight")
      ->capture_default_str()
      ->check(CLI::Range(1U, 256U));
  app.add_option("--below", options.slow,
                 "Share of the median rate below which a direction is slow")
      ->default_str("0.5")
      ->check(tools::real_range(0.0, 1.0));
  app.add_option("--netns", options.netns,
                 "Network namespace; NAME%N: NAME0 to NAMEn, the ranks spread over N of them");
  app.add_option("--json", options.json, "Write JSON")->option_text("FILE");
  app.add_option("--html", options.html, "Write a page with heat maps")->option_text("FILE");
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"Connects all ranks of a job with all others over DAT, checks data and measures."};
  app.set_version_flag("--version", tools::version_of("datmesh"), "Print the version and exit");
  app.failure_message([](const CLI::App*, const CLI::Error& error) {
    return std::string("datmesh: ") + error.what() + "\nTry 'datmesh --help'.\n";
  });
  app.footer("Run it with mpirun or srun: mpirun -n 4 datmesh --html mesh.html");
  Options options;
  add_options(app, options);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return tools::ended("datmesh", app.exit(error) == 0 ? 0 : 2);
  }
  std::string command = "datmesh";
  for (int i = 1; i < argc; ++i) command += std::string(" ") + argv[i];
  int status = 1;
  try {
    status = run(options, command);
  } catch (const std::exception& error) {
    tools::print(stderr, "datmesh: {}\n", error.what());
  }
  return tools::ended("datmesh", status);
}
