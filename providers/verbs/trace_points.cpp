// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "providers/verbs/trace_points.h"

#include "providers/verbs/status.h"
#include "providers/verbs/work_tag.h"

#include <cstring>

namespace udapl::verbs::point {

using trace::Kind;

const char* name_of_errno(int error) noexcept {
  if (error == 0) return "ok";
  const char* const name = ::strerrorname_np(error < 0 ? -error : error);
  return name != nullptr ? name : "unknown error";
}

void call(const char* function, const char* what, int error) noexcept {
  trace::emit({.level = trace::kDetail,
               .kind = Kind::kVerbsCall,
               .code = error,
               .function = function,
               .text = what,
               .status = name_of_errno(error)});
}

DAT_RETURN refused(const char* function, int error) noexcept {
  ended(function, "", error);
  return post_error(error);
}

void event(ibv_event_type type) noexcept {
  if (!trace::enabled(trace::kDetail)) return;
  trace::emit({.level = trace::kDetail,
               .kind = Kind::kVerbsEvent,
               .code = type,
               .function = "async",
               .text = name_of(type),
               .status = "ok"});
}

void failed_work(const ibv_wc& work, const void* ep) noexcept {
  if (!trace::enabled(trace::kDetail)) return;
  trace::emit({.level = trace::kDetail,
               .kind = Kind::kVerbsWork,
               .code = work.status,
               .cookie = work.wr_id,
               .object = ep,
               .function = "ibv_poll_cq",
               .text = (work.wr_id & kReceiveTag) != 0 ? "receive" : "request",
               .status = name_of(work.status),
               .number = work.qp_num,
               .vendor_error = work.vendor_err});
}

}  // namespace udapl::verbs::point
