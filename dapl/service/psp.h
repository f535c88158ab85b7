// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "dapl/service/service_point.h"

namespace udapl::dapl {

// A public service point: listens until it is freed. Each request becomes a CR, which with the
// PROVIDER flag has a new TENTATIVE EP. Thread-safe. Owned by an Ia.
class Psp : public ServicePoint {
 public:
  static constexpr DAT_HANDLE_TYPE kType = DAT_HANDLE_TYPE_PSP;

  Psp(Ia& owner, Evd& evd, DAT_PSP_FLAGS flags) noexcept
      : ServicePoint(owner, kType, evd, sink_), flags_(flags) {}
  ~Psp() { close(); }  // before the sink goes

  [[nodiscard]] DAT_PSP_FLAGS flags() const noexcept { return flags_; }
  // Delivers a request to this service point. On failure the caller still owns it.
  [[nodiscard]] Status receive(std::unique_ptr<transport::IncomingConnection>& request,
                               Upcall& upcall) noexcept;

 private:
  const DAT_PSP_FLAGS flags_;
  RequestSink<Psp> sink_{*this};
};

}  // namespace udapl::dapl
