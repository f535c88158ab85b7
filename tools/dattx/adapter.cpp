// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "../program.h"
#include "connection.h"

#include <dat/dat_diagnosis_extensions.h>
#include <fmt/core.h>

#include <algorithm>
#include <chrono>

namespace dattx {

bool ok(DAT_RETURN status, std::string_view what) {
  if (status == DAT_SUCCESS) {
    return true;
  }
  const char* cause = "";
  dat_last_cause(status, &cause);
  tools::print(stderr, "dattx: {}: {}\n", what, cause);
  return false;
}

bool Adapter::open(const Settings& settings) {
  settings_ = settings;
  DAT_EVD_HANDLE async_evd = DAT_HANDLE_NULL;
  return ok(dat_ia_open(settings_.ia.data(), 8, &async_evd, ia_.out()),
            fmt::format("opening the adapter '{}'", settings_.ia)) &&
         ok(dat_ia_query(ia_.get(), nullptr, DAT_IA_FIELD_ALL, &attributes_, 0, nullptr),
            "querying the attributes of the adapter");
}

std::optional<DAT_EVENT> Adapter::next_event(DAT_EVD_HANDLE evd, const char* of_what) const {
  const auto deadline =
      std::chrono::steady_clock::now() + std::chrono::seconds(settings_.timeout_s);
  DAT_EVENT event{};
  DAT_RETURN status;
  if (settings_.poll) {
    do {
      status = dat_evd_dequeue(evd, &event);
    } while (DAT_GET_TYPE(status) == DAT_QUEUE_EMPTY &&
             std::chrono::steady_clock::now() < deadline);
  } else {
    do {
      const auto left = std::chrono::duration_cast<std::chrono::microseconds>(
          deadline - std::chrono::steady_clock::now());
      const auto timeout = static_cast<DAT_TIMEOUT>(std::max<std::int64_t>(left.count(), 0));
      DAT_COUNT more = 0;
      status = dat_evd_wait(evd, timeout, 1, &event, &more);
    } while (DAT_GET_TYPE(status) == DAT_INTERRUPTED_CALL);
  }
  if (!ok(status, fmt::format("waiting for {}", of_what))) {
    return std::nullopt;
  }
  return event;
}

std::optional<DAT_EVENT> Adapter::wait_forever(DAT_EVD_HANDLE evd) const {
  DAT_EVENT event{};
  DAT_COUNT more = 0;
  DAT_RETURN status;
  do {
    status = dat_evd_wait(evd, DAT_TIMEOUT_INFINITE, 1, &event, &more);
  } while (DAT_GET_TYPE(status) == DAT_INTERRUPTED_CALL);
  if (!ok(status, "waiting for a client")) {
    return std::nullopt;
  }
  return event;
}

}  // namespace dattx
