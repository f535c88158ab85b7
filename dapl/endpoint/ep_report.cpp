// SPDX-License-Identifier: MIT OR GPL-2.0-only
// The transport's reports about the connection of an EP, and the events that they cause.
#include "dapl/endpoint/ep.h"
#include "dapl/objects/ia.h"
#include "dapl/objects/trace_points.h"

namespace udapl::dapl {

Upcall Ep::post_event(DAT_EVENT_NUMBER number) noexcept {
  DAT_EVENT event{};
  event.event_number = number;
  DAT_CONNECTION_EVENT_DATA& data = event.event_data.connect_event_data;
  data.ep_handle = this;
  const bool with_data =
      number == DAT_CONNECTION_EVENT_ESTABLISHED || number == DAT_CONNECTION_EVENT_PEER_REJECTED;
  const transport::PrivateData from_peer =
      with_data ? connection_.peer_data() : transport::PrivateData();
  data.private_data_size = static_cast<DAT_COUNT>(from_peer.size());
  // Not null even without data: programs read a structure or a string there without checking the
  // size (docs/compatibility.md C138). The consumer may write there.
  if (connection_.target())
    data.private_data = const_cast<std::byte*>(connection_.peer_data().data());
  if (trace::enabled(trace::kNormal)) [[unlikely]]
    point::connection(*this, number, connection_.endpoints(), from_peer);
  // Completions of this EP are delivered after ESTABLISHED and before the event that ends the
  // connection.
  if (number != DAT_CONNECTION_EVENT_ESTABLISHED) await_established(false);
  Upcall upcall = config_.connect_evd->post(event);
  await_established(false);
  return upcall;
}

// Posts the event under the lock, so that the events of an EP are in the order of its states, and
// no event goes to an EVD that the EP no longer uses.
void Ep::report(EpInput input, transport::PrivateData data) noexcept {
  const trace::About about(this);
  Upcall upcall;  // runs last, when the EP may already be freed
  const ScopedLock lock(mutex_);
  const EpStep change = step(state(), input);
  if (change.verdict != EpVerdict::kProceed) {
    UDAPL_TRACE(kDetail, "ep %p: %s ignored in state %s", static_cast<void*>(this), name(input),
                name(state()));
    return;
  }
  if (input == EpInput::kEstablished || input == EpInput::kRejected)
    connection_.store_peer_data(data);
  if (input == EpInput::kEstablished) connection_.complete_endpoints(qp_->endpoints());
  set_state(change.next, input);
  upcall = post_event(change.event);
}

void Ep::Sink::on_established(transport::PrivateData from_peer) noexcept {
  ep_.report(EpInput::kEstablished, from_peer);
}
void Ep::Sink::on_rejected(transport::PrivateData from_peer) noexcept {
  ep_.report(EpInput::kRejected, from_peer);
}
void Ep::Sink::on_refused() noexcept { ep_.report(EpInput::kRefused, {}); }
void Ep::Sink::on_unreachable() noexcept { ep_.report(EpInput::kUnreachable, {}); }
void Ep::Sink::on_timed_out() noexcept { ep_.report(EpInput::kTimedOut, {}); }
void Ep::Sink::on_accept_failed() noexcept { ep_.report(EpInput::kAcceptFailed, {}); }
void Ep::Sink::on_disconnected() noexcept { ep_.report(EpInput::kDisconnected, {}); }

}  // namespace udapl::dapl
