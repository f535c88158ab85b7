// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "dapl/service/service_point.h"

namespace udapl::dapl {

// A common service point: listens on an IP address and port. The consumer provides the EPs.
// Thread-safe. Owned by an Ia.
class Csp : public ServicePoint {
 public:
  static constexpr DAT_HANDLE_TYPE kType = DAT_HANDLE_TYPE_CSP;

  Csp(Ia& owner, Evd& evd, const DAT_COMM& comm) noexcept
      : ServicePoint(owner, kType, evd, sink_), comm_(comm) {}
  ~Csp() { close(); }  // before the sink goes

  [[nodiscard]] const DAT_COMM& comm() const noexcept { return comm_; }
  // Delivers a request to this service point. On failure the caller still owns it.
  [[nodiscard]] Status receive(std::unique_ptr<transport::IncomingConnection>& request,
                               Upcall& upcall) noexcept;

 private:
  const DAT_COMM comm_;
  RequestSink<Csp> sink_{*this};
};

}  // namespace udapl::dapl
