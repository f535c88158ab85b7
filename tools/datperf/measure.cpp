// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "measure.h"
#include "server.h"
#include "statistics.h"

#include <fmt/core.h>

#include <barrier>
#include <exception>
#include <list>
#include <mutex>
#include <thread>

namespace datperf {

namespace {

// Runs the rounds of a case in all threads. A round starts when all threads are ready.
class Team {
 public:
  Team(const Effort& effort, std::vector<std::unique_ptr<Runner>> runners)
      : effort_(effort),
        runners_(std::move(runners)),
        barrier_(static_cast<std::ptrdiff_t>(runners_.size())),
        rounds_(effort.rounds) {
    for (auto& of_one : rounds_) of_one.resize(runners_.size());
  }

  void run() {
    std::vector<std::thread> threads;
    for (std::size_t i = 1; i < runners_.size(); ++i) threads.emplace_back(&Team::run_one, this, i);
    run_one(0);
    for (std::thread& thread : threads) thread.join();
    if (error_) std::rethrow_exception(error_);
  }
  [[nodiscard]] const std::vector<std::vector<Round>>& rounds() const { return rounds_; }

 private:
  void run_one(std::size_t index) {
    try {
      Runner& runner = *runners_[index];
      if (effort_.count != 0)
        (void)runner.run(Limit(std::min<std::uint64_t>(effort_.count, 16), 0));
      else
        (void)runner.run(Limit(0, effort_.warm_up));
      for (std::vector<Round>& round : rounds_) {
        barrier_.arrive_and_wait();
        round[index] = runner.run(Limit(effort_.count, effort_.seconds));
      }
    } catch (...) {
      const std::lock_guard lock(mutex_);
      if (!error_) error_ = std::current_exception();
      barrier_.arrive_and_drop();
    }
  }

  const Effort& effort_;
  std::vector<std::unique_ptr<Runner>> runners_;
  std::barrier<> barrier_;
  std::vector<std::vector<Round>> rounds_;  // indexed by round, then by thread
  std::mutex mutex_;
  std::exception_ptr error_;
};

std::string describe(const Case& what) {
  return fmt::format("{} {} ({}), {} bytes", what.operation_name(), name_of(what.measure),
                     name_of(what.waiting), what.size);
}

// Sockets have no one-sided operations, and each socket has a thread of its own.
bool sockets_have(const Case& what) {
  return what.endpoints == 1 &&
         (what.measure == Measure::kConnections ? what.waiting == Waiting::kBlock
                                                : what.operation == Operation::kSend);
}

struct Column {
  explicit Column(const Plan& plan, std::size_t index)
      : device(plan.ias[index]),
        target(resolve(plan.hosts[plan.hosts.size() == 1 ? 0 : index], port_of(plan, index),
                       std::chrono::seconds(plan.timeout_s))),
        session(device, target) {}
  Device device;
  Target target;
  Session session;
};

}  // namespace

Row measure(const Case& what, const Effort& effort, const std::string& column,
            const std::function<std::unique_ptr<Runner>()>& make) {
  std::vector<std::unique_ptr<Runner>> runners;
  for (std::uint32_t i = 0; i < what.threads; ++i) runners.push_back(make());
  Team team(effort, std::move(runners));
  team.run();

  Row row;
  row.column = column;
  row.what = what;
  std::vector<double> samples;
  std::vector<double> rates;
  for (const std::vector<Round>& round : team.rounds()) {
    std::vector<double> of_round;
    double rate = 0;
    for (const Round& part : round) {
      row.operations += part.operations;
      rate += static_cast<double>(part.operations) / std::max(part.seconds, 1e-9);
      of_round.insert(of_round.end(), part.samples.begin(), part.samples.end());
    }
    rates.push_back(rate);
    if (what.measure == Measure::kBandwidth) of_round.push_back(rate * what.size / 1e6);
    samples.insert(samples.end(), of_round.begin(), of_round.end());
    row.rounds.push_back(median_of(std::move(of_round)));
  }
  row.value = distribution_of(std::move(samples));
  row.interval = median_interval(row.rounds);
  row.per_second = median_of(std::move(rates));
  return row;
}

std::vector<std::string> columns_of(const Plan& plan) {
  std::vector<std::string> columns = plan.ias;
  if (plan.sockets) columns.emplace_back("sockets");
  return columns;
}

void measure_all(const Plan& plan, const Sink& sink) {
  std::list<Column> columns;
  for (std::size_t i = 0; i < plan.ias.size(); ++i) columns.emplace_back(plan, i);
  const Target sockets =
      resolve(plan.hosts.front(), socket_port_of(plan), std::chrono::seconds(plan.timeout_s));
  for (const Case& what : plan.cases) {
    std::vector<Row> rows;
    const auto add = [&](const std::string& name, const auto& make) {
      try {
        rows.push_back(measure(what, plan.effort, name, make));
      } catch (const std::exception& error) {
        throw Trouble(fmt::format("{}: {}: {}", name, describe(what), error.what()));
      }
    };
    std::size_t index = 0;
    for (const Column& column : columns)
      add(plan.ias[index++], [&] {
        return what.measure == Measure::kConnections
                   ? make_probe_runner(column.device, column.target, what)
                   : make_transfer_runner(column.device, column.target, what);
      });
    if (plan.sockets && sockets_have(what))
      add("sockets", [&] { return make_socket_runner(sockets, what); });
    sink(what, rows);
  }
  for (const Column& column : columns) column.session.finish();
}

}  // namespace datperf
