// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "dapl/events/cno.h"
#include "dapl/events/evd.h"
#include "dapl/objects/boundary.h"
#include "dapl/objects/calls.h"
#include "dapl/objects/ia.h"
#include "dapl/objects/refuse.h"
#include "dapl/objects/require.h"

namespace udapl::dapl {

namespace {

constexpr unsigned kStandardFlags = DAT_EVD_SOFTWARE_FLAG | DAT_EVD_DEFAULT_FLAG;

Status check_flags(unsigned flags, const transport::Attributes& attributes) noexcept {
  // Unknown bits, and an empty mask, are accepted: programs pass them.
  const unsigned streams = flags & kStandardFlags;
  const bool async_mixed =
      (streams & DAT_EVD_ASYNC_FLAG) != 0 && streams != static_cast<unsigned>(DAT_EVD_ASYNC_FLAG);
  const bool unordered = (streams & DAT_EVD_DTO_FLAG) != 0 &&
                         (streams & DAT_EVD_CONNECTION_FLAG) != 0 &&
                         !attributes.dto_and_connection_mergeable;
  if (async_mixed || unordered)
    UDAPL_REFUSE(DAT_INVALID_PARAMETER, DAT_INVALID_ARG4,
                 "EVD flags 0x%x: %s cannot be merged (evd_stream_merging_supported)", flags,
                 async_mixed ? "ASYNC and others" : "DTO and CONNECTION");
  return Status();
}

Status check_qlen(DAT_COUNT qlen, const Ia& ia) noexcept {
  if (qlen <= 0)
    UDAPL_REFUSE(DAT_INVALID_PARAMETER, DAT_INVALID_ARG2, "evd_min_qlen %d, at least 1", qlen);
  if (qlen > ia.attributes().max_evd_qlen)
    UDAPL_REFUSE(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_TEVD, "evd_min_qlen %d, at most %d", qlen,
                 ia.attributes().max_evd_qlen);
  return Status();
}

Status create(DAT_IA_HANDLE ia_handle, DAT_COUNT qlen, DAT_CNO_HANDLE cno_handle,
              DAT_EVD_FLAGS flags, DAT_EVD_HANDLE* evd_handle) {
  const auto ia = require<Ia>(ia_handle);
  if (ia == nullptr) return ia.refusal();
  auto cno = require_of_or_null<Cno>(*ia, cno_handle);
  if (!cno.ok()) return cno.status();
  if (evd_handle == nullptr)
    UDAPL_REFUSE(DAT_INVALID_PARAMETER, DAT_INVALID_ARG5, "null EVD handle pointer");
  if (qlen <= 0)
    UDAPL_REFUSE(DAT_INVALID_PARAMETER, DAT_INVALID_ARG2, "evd_min_qlen %d, at least 1", qlen);
  if (const Status status = check_flags(flags, ia->attributes()); !status.ok()) return status;
  if (const Status status = check_qlen(qlen, *ia); !status.ok()) return status;
  if (ia->full<Evd>(ia->attributes().max_evds))
    UDAPL_REFUSE(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_TEVD, "already %d EVDs",
                 ia->attributes().max_evds);
  auto evd = Evd::create(*ia, qlen, flags, *cno);
  if (!evd.ok()) return evd.status();
  *evd_handle = &ia->adopt(*std::move(evd));
  return Status();
}

Status post_se(DAT_EVD_HANDLE handle, const DAT_EVENT* event) {
  const auto evd = require<Evd>(handle);
  if (evd == nullptr) return evd.refusal();
  if (event == nullptr || event->event_number != DAT_SOFTWARE_EVENT)
    UDAPL_REFUSE(DAT_INVALID_PARAMETER, DAT_INVALID_ARG2, "not a software event");
  if ((evd->flags() & DAT_EVD_SOFTWARE_FLAG) == 0)
    UDAPL_REFUSE(DAT_INVALID_PARAMETER, DAT_INVALID_ARG1, "EVD %p takes no software events",
                 handle);
  DAT_EVENT copy{};
  copy.event_number = DAT_SOFTWARE_EVENT;
  copy.event_data.software_event_data = event->event_data.software_event_data;
  bool queued = false;
  // Existing applications expect the agent to be called in the thread that posts the event.
  evd->try_post(copy, &queued).run_here();
  return queued ? Status() : failure(DAT_QUEUE_FULL);
}

}  // namespace

namespace calls {

DAT_RETURN evd_create(DAT_IA_HANDLE ia, DAT_COUNT qlen, DAT_CNO_HANDLE cno, DAT_EVD_FLAGS flags,
                      DAT_EVD_HANDLE* evd) {
  // Some programs do not initialise the handle, and after a failure free it unless it is null
  // (docs/compatibility.md C140).
  if (evd != nullptr) *evd = DAT_HANDLE_NULL;
  return boundary([&] { return create(ia, qlen, cno, flags, evd); });
}

DAT_RETURN evd_query(DAT_EVD_HANDLE handle, DAT_EVD_PARAM_MASK, DAT_EVD_PARAM* param) {
  return boundary([&]() -> Status {
    const auto evd = require<Evd>(handle);
    if (evd == nullptr) return evd.refusal();
    if (param == nullptr) UDAPL_REFUSE(DAT_INVALID_PARAMETER, DAT_INVALID_ARG3, "null parameters");
    param->ia_handle = evd->ia->handle();
    param->evd_qlen = evd->qlen();
    param->evd_state = evd->state();
    param->cno_handle = evd->cno();
    param->evd_flags = evd->flags();
    return Status();
  });
}

DAT_RETURN evd_modify_cno(DAT_EVD_HANDLE handle, DAT_CNO_HANDLE cno_handle) {
  return boundary([&]() -> Status {
    const auto evd = require<Evd>(handle);
    if (evd == nullptr) return evd.refusal();
    auto cno = require_of_or_null<Cno>(*evd->ia, cno_handle);
    if (!cno.ok()) return cno.status();
    evd->set_cno(*cno);
    return Status();
  });
}

DAT_RETURN evd_enable(DAT_EVD_HANDLE handle) {
  return boundary([&]() -> Status {
    const auto evd = require<Evd>(handle);
    if (evd != nullptr) evd->set_enabled(true);
    return evd.refusal();
  });
}

DAT_RETURN evd_disable(DAT_EVD_HANDLE handle) {
  return boundary([&]() -> Status {
    const auto evd = require<Evd>(handle);
    if (evd != nullptr) evd->set_enabled(false);
    return evd.refusal();
  });
}

DAT_RETURN evd_set_unwaitable(DAT_EVD_HANDLE handle) {
  return boundary([&]() -> Status {
    const auto evd = require<Evd>(handle);
    if (evd != nullptr) evd->set_waitable(false);
    return evd.refusal();
  });
}

DAT_RETURN evd_clear_unwaitable(DAT_EVD_HANDLE handle) {
  return boundary([&]() -> Status {
    const auto evd = require<Evd>(handle);
    if (evd != nullptr) evd->set_waitable(true);
    return evd.refusal();
  });
}

DAT_RETURN evd_resize(DAT_EVD_HANDLE handle, DAT_COUNT qlen) {
  return boundary([&]() -> Status {
    const auto evd = require<Evd>(handle);
    if (evd == nullptr) return evd.refusal();
    if (const Status status = check_qlen(qlen, *evd->ia); !status.ok()) return status;
    return evd->resize(qlen);
  });
}

DAT_RETURN evd_post_se(DAT_EVD_HANDLE handle, const DAT_EVENT* event) {
  return boundary([&] { return post_se(handle, event); });
}

}  // namespace calls
}  // namespace udapl::dapl
