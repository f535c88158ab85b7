// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "dapl/posted/trace_points.h"

#include "common/dat_names.h"
#include "common/tracing/trace.h"
#include "dapl/posted/completion.h"

namespace udapl::dapl::point {

using trace::Kind;

void post(const ObjectHeader& object, const Cookie& cookie, std::uint32_t flags) noexcept {
  trace::emit({.level = trace::kDetail,
               .kind = Kind::kPost,
               .code = flags,
               .cookie = cookie.user.as_64,
               .length = cookie.operation == DAT_DTO_BIND_MW ? 0 : cookie.length,
               .object = &object,
               .function = "post",
               .text = operation_name(cookie.operation)});
}

void completion(const transport::Completion& completion, DAT_EVD_HANDLE evd) noexcept {
  const Cookie& cookie = cookie_of(completion);
  const bool receive = cookie.operation == DAT_DTO_RECEIVE;
  trace::emit({.level = trace::kDetail,
               .kind = Kind::kCompletion,
               .code = completion.status,
               .cookie = cookie.user.as_64,
               .length = completion.status != DAT_DTO_SUCCESS || cookie.operation == DAT_DTO_BIND_MW
                             ? 0
                         : receive ? completion.length
                                   : cookie.length,
               .object = ep_of(completion),
               .other = evd,
               .function = cookie.suppressed ? "suppressed" : "completion",
               .text = operation_name(receive ? completion.operation : cookie.operation),
               .status = dto_status_name(completion.status)});
}

}  // namespace udapl::dapl::point
