// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "providers/verbs/cm.h"

#include <fcntl.h>

#include "common/cause.h"
#include "common/errno_text.h"
#include "common/trace.h"
#include "providers/verbs/adapter.h"
#include "providers/verbs/cm_listener.h"
#include "providers/verbs/status.h"
#include "providers/verbs/trace_points.h"

#include <cerrno>
#include <cstring>
#include <new>

namespace udapl::verbs {

namespace {

constexpr int kEventsPerTurn = 32;  // then timers and the other descriptors have their turn

}  // namespace

Result<std::unique_ptr<ConnectionManager>> ConnectionManager::create(Adapter& adapter) {
  auto manager = std::make_unique<ConnectionManager>(adapter);
  const int fd = adapter.cm_channel()->fd;
  const int flags = ::fcntl(fd, F_GETFL);
  if (flags < 0 || ::fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0) {
    const int error = errno;
    UDAPL_EXPLAIN_ERRNO(kError, dat_error(DAT_INTERNAL_ERROR), error,
                        "the rdma_cm channel does not become non-blocking");
    return failure(DAT_INTERNAL_ERROR);
  }
  if (const Status status = manager->watch_.start(fd); !status.ok()) return status;
  return manager;
}

ConnectionManager::ConnectionManager(Adapter& adapter) noexcept
    : adapter_(adapter),
      watch_(adapter.reactor(), Call::to<&ConnectionManager::on_readable>(this)),
      burial_(adapter.reactor(), Call::to<&ConnectionManager::bury>(this)) {}

ConnectionManager::~ConnectionManager() {
  watch_.stop();
  burial_.close();
  const ScopedLock lock(lock_);
  const auto destroy = [](CmId* id) { delete id; };
  lingering_.clear_and_dispose(destroy);
  dead_.clear_and_dispose(destroy);
}

Result<std::unique_ptr<CmId>> ConnectionManager::make_id(CmOwner& owner) {
  Result<std::unique_ptr<CmId>> id =
      CmId::create(adapter_.reactor(), *adapter_.cm_channel(), owner);
  if (!id.ok()) return id;
  const Environment& environment = adapter_.environment();
  // Hints: a kernel that does not know them still connects.
  if (environment.tos != 0) {
    std::uint8_t tos = environment.tos;
    if (::rdma_set_option((*id)->get(), RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &tos, sizeof tos) != 0)
      UDAPL_TRACE(kNormal, "type of service %u: %s", tos, ErrnoText(errno).c_str());
  }
  if (environment.ack_timer.has_value()) {
    std::uint8_t timer = *environment.ack_timer;
    if (::rdma_set_option((*id)->get(), RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, &timer,
                          sizeof timer) != 0)
      UDAPL_TRACE(kNormal, "ACK timeout %u: %s", timer, ErrnoText(errno).c_str());
  }
  return id;
}

void ConnectionManager::retire(std::unique_ptr<CmId> id, Farewell how) noexcept {
  if (id == nullptr) return;
  id->set_owner(*this);
  const ScopedLock lock(lock_);
  // The answer may have come already: to the former owner, or to us before the id is in a list.
  const bool lingers = how == Farewell::kLinger && !id->over();
  (lingers ? lingering_ : dead_).push_back(*id.release());
  if (!lingers) burial_.post();
}

Result<std::unique_ptr<transport::Listener>> ConnectionManager::listen(
    const transport::ListenRequest& request, transport::ListenSink& sink) {
  auto listener = std::make_unique<RdmaListener>(adapter_, sink);
  const transport::SocketAddress place =
      request.address != nullptr ? *request.address : adapter_.device().address;
  if (const Status status = listener->start(place, request.conn_qual); !status.ok()) return status;
  return std::unique_ptr<transport::Listener>(std::move(listener));
}

// ---- by the driver ------------------------------------------------------------------------------

void ConnectionManager::on_readable() noexcept {
  const trace::About nobody(nullptr);  // until an owner says who; a thread that waits may be here
  for (int i = 0; i < kEventsPerTurn; ++i) {
    rdma_cm_event* event = nullptr;
    if (::rdma_get_cm_event(adapter_.cm_channel(), &event) != 0) {
      if (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR)
        UDAPL_TRACE(kError, "rdma_get_cm_event: %s", ErrnoText(errno).c_str());
      return;
    }
    const bool removed = event->event == RDMA_CM_EVENT_DEVICE_REMOVAL;
    CmId::deliver(*event);
    ::rdma_ack_cm_event(event);
    if (removed) adapter_.on_removal();
  }
}

// An id that lingers, waits for its burial, or is about to be put into a list by retire(), which
// then sees what the id has noted.
void ConnectionManager::on_cm_event(const rdma_cm_event& event) noexcept {
  point::event(event);
  auto& id = *static_cast<CmId*>(event.id->context);
  const ScopedLock lock(lock_);
  if (!id.over() || !id.hook.is_linked()) return;
  id.hook.unlink();
  dead_.push_back(id);
  burial_.post();
}

// Outside of all events, so that rdma_destroy_id waits for none.
void ConnectionManager::bury() noexcept {
  Ids dead;
  {
    const ScopedLock lock(lock_);
    dead.swap(dead_);
  }
  dead.clear_and_dispose([](CmId* id) { delete id; });
}

// ---- names -------------------------------------------------------------------------------------

const char* name_of(rdma_cm_event_type event) noexcept { return ::rdma_event_str(event); }

const char* reject_reason(int status, bool iwarp) noexcept {
  if (iwarp) return ::strerrordesc_np(status < 0 ? -status : status);
  switch (status) {
    case 1:
      return "no QP";
    case 3:
      return "no resources";
    case 4:
      return "timeout";
    case 5:
      return "unsupported request";
    case 6:
      return "invalid communication id";
    case 8:
      return "invalid service id: nobody listens";
    case 9:
      return "invalid transport";
    case 10:
      return "stale connection";
    case 12:
    case 13:
    case 15:
      return "the peer's port or path is another one";
    case 26:
      return "invalid path MTU";
    case 27:
      return "insufficient responder resources";
    case kConsumerReject:
      return "the consumer's decision";
    case 33:
      return "invalid flow label";
    default:
      return "see the InfiniBand specification, REJ reasons";
  }
}

}  // namespace udapl::verbs
