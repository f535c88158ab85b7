// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// Measures connection set-up: makes and ends `endpoints` connections at a time.
#include "connect.h"

#include <deque>

namespace datperf {

namespace {

class ProbeRunner : public Runner {
 public:
  ProbeRunner(const Device& device, const Target& target, const Case& what)
      : device_(device),
        target_(target),
        what_(what),
        attributes_(endpoint_attributes(device, 64, 1, 1)),
        zone_(device.adapter),
        transfers_(device.adapter, DAT_EVD_DTO_FLAG, static_cast<DAT_COUNT>(2 * what.endpoints)),
        queue_(device.adapter, DAT_EVD_CONNECTION_FLAG,
               static_cast<DAT_COUNT>(2 * what.endpoints + 2)) {
    Round round;
    cycle(round);  // so that errors show up before anything is measured
  }

  Round run(const Limit& limit) override {
    Round round;
    const auto start = Clock::now();
    auto now = start;
    while (!limit.reached(round.operations, now)) {
      cycle(round);
      now = Clock::now();
    }
    round.seconds = seconds_between(start, now);
    return round;
  }

 private:
  struct Probe {
    explicit Probe(const ProbeRunner& of)
        : endpoint(of.device_.adapter, of.zone_, of.transfers_, of.transfers_, of.queue_,
                   &of.attributes_) {}
    dat::Endpoint endpoint;
    Clock::time_point sent_at;
  };

  void cycle(Round& round) {
    std::deque<Probe> probes;
    for (std::uint32_t i = 0; i < what_.endpoints; ++i) probes.emplace_back(*this);
    for (Probe& probe : probes) {
      probe.sent_at = Clock::now();
      request(probe.endpoint, target_, Hello{Role::kProbe, what_, 0, 0, 0});
    }
    for (std::size_t left = probes.size(); left > 0; --left) {
      const dat::Established established = established_of(next_event(), target_);
      const auto now = Clock::now();
      for (const Probe& probe : probes)
        if (probe.endpoint.handle() == established.endpoint)
          round.samples.push_back(us_between(probe.sent_at, now));
      ++round.operations;
    }
    for (const Probe& probe : probes) probe.endpoint.disconnect();
    for (std::size_t left = probes.size(); left > 0;) {
      const std::optional<dat::Event> event = next_event();
      if (!event) throw Trouble("a connection did not end in time");
      if (std::holds_alternative<dat::Ended>(*event)) --left;
    }
  }

  std::optional<dat::Event> next_event() {
    return datperf::next_event(queue_, what_.waiting, target_.patience);
  }

  const Device& device_;
  Target target_;
  Case what_;
  DAT_EP_ATTR attributes_;
  dat::Zone zone_;
  dat::Queue transfers_;
  dat::Queue queue_;
};

}  // namespace

std::unique_ptr<Runner> make_probe_runner(const Device& device, const Target& target,
                                          const Case& what) {
  return std::make_unique<ProbeRunner>(device, target, what);
}

}  // namespace datperf
