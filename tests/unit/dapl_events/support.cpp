// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "tests/unit/dapl_events/support.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <future>
#include <mutex>

namespace udapl::test {

Providers::Providers() {
  trace::set_level(0);  // the tests provoke errors on purpose
  fake::settings().reset();
  for (const bool thread_safe : {false, true}) {
    const DAT_PROVIDER_INFO entry = info(kName, thread_safe);
    dapl::register_provider(fake::provider_kit(), &entry, "device 1");
  }
}

Providers::~Providers() {
  for (const bool thread_safe : {false, true}) {
    const DAT_PROVIDER_INFO entry = info(kName, thread_safe);
    dapl::unregister_provider(&entry);
  }
  BOOST_CHECK_EQUAL(fake::Scheduler::instance().pending(), 0U);
}

DAT_PROVIDER_INFO Providers::info(const char* name, bool thread_safe) {
  DAT_PROVIDER_INFO entry{};
  std::strncpy(entry.ia_name, name, sizeof entry.ia_name - 1);
  entry.dapl_version_major = 2;
  entry.dapl_version_minor = 0;
  entry.is_thread_safe = thread_safe ? DAT_TRUE : DAT_FALSE;
  return entry;
}

OpenIa::OpenIa(bool thread_safe, DAT_EVD_HANDLE evd, DAT_COUNT qlen)
    : table(fake::registered(Providers::kName, thread_safe)), async(evd) {
  BOOST_REQUIRE(table != nullptr);
  char name[] = "fake";
  REQUIRE_OK(table->ia_open_func(name, qlen, &async, &raw));
  number = fake::note_open(raw);
}

OpenIa::~OpenIa() {
  if (raw != DAT_HANDLE_NULL) CHECK_CODE(close(), DAT_SUCCESS);
}

DAT_RETURN OpenIa::close(DAT_CLOSE_FLAGS flags) {
  const DAT_RETURN code = table->ia_close_func(raw, flags);
  if (code != DAT_SUCCESS) return code;
  fake::note_close(raw);
  raw = DAT_HANDLE_NULL;
  return code;
}

DAT_EVD_HANDLE OpenIa::evd(unsigned flags, DAT_COUNT qlen, DAT_CNO_HANDLE cno) const {
  DAT_EVD_HANDLE made = DAT_HANDLE_NULL;
  REQUIRE_OK(table->evd_create_func(raw, qlen, cno, static_cast<DAT_EVD_FLAGS>(flags), &made));
  return made;
}

DAT_CNO_HANDLE OpenIa::cno(DAT_OS_WAIT_PROXY_AGENT agent) const {
  DAT_CNO_HANDLE made = DAT_HANDLE_NULL;
  REQUIRE_OK(table->cno_create_func(raw, agent, &made));
  return made;
}

DAT_PZ_HANDLE OpenIa::pz() const {
  DAT_PZ_HANDLE made = DAT_HANDLE_NULL;
  REQUIRE_OK(table->pz_create_func(raw, &made));
  return made;
}

DAT_SRQ_HANDLE OpenIa::srq(DAT_PZ_HANDLE zone, DAT_COUNT buffers) const {
  DAT_SRQ_HANDLE made = DAT_HANDLE_NULL;
  DAT_SRQ_ATTR attributes{buffers, 1, DAT_SRQ_LW_DEFAULT};
  REQUIRE_OK(table->srq_create_func(raw, zone, &attributes, &made));
  return made;
}

DAT_RETURN OpenIa::post(DAT_EVD_HANDLE queue, std::uintptr_t value) const {
  DAT_EVENT event{};
  event.event_number = DAT_SOFTWARE_EVENT;
  event.event_data.software_event_data.pointer = reinterpret_cast<DAT_PVOID>(value);
  return table->evd_post_se_func(queue, &event);
}

long OpenIa::take(DAT_EVD_HANDLE queue) const {
  DAT_EVENT event{};
  if (table->evd_dequeue_func(queue, &event) != DAT_SUCCESS) return -1;
  BOOST_CHECK_EQUAL(static_cast<int>(event.event_number), static_cast<int>(DAT_SOFTWARE_EVENT));
  BOOST_CHECK_EQUAL(event.evd_handle, queue);
  return static_cast<long>(
      reinterpret_cast<std::uintptr_t>(event.event_data.software_event_data.pointer));
}

// ---- Traced ------------------------------------------------------------------------------------

namespace {

std::mutex traced_lock;
std::vector<Traced::Line>& traced_lines() {
  static auto* const lines = new std::vector<Traced::Line>;
  return *lines;
}

void keep_line(const trace::Record* r) {
  const std::scoped_lock lock(traced_lock);
  traced_lines().push_back({r->kind, r->level, r->code, r->cookie, r->length, r->object, r->ia,
                            r->type, r->function, r->text, r->detail, r->status});
}

}  // namespace

Traced::Traced() {
  traced_lines().clear();
  trace::set_probe(&keep_line);
}

Traced::~Traced() { trace::set_probe(nullptr); }

std::vector<Traced::Line> Traced::of(trace::Kind kind) const {
  const std::scoped_lock lock(traced_lock);
  std::vector<Line> found;
  for (const Line& line : traced_lines())
    if (line.kind == kind) found.push_back(line);
  return found;
}

bool Traced::has(trace::Level level, std::string_view piece) const {
  const std::scoped_lock lock(traced_lock);
  return std::any_of(traced_lines().begin(), traced_lines().end(), [&](const Line& line) {
    return line.level == level && line.text.find(piece) != std::string::npos;
  });
}

// ---- Completions -------------------------------------------------------------------------------

Completions::Completions(const OpenIa& ia, DAT_EVD_HANDLE evd, DAT_COUNT buffers)
    : srq_(*static_cast<dapl::Srq*>(ia.srq(ia.pz(), buffers))),
      cq_(static_cast<fake::Cq&>(*object(evd).cq())) {}

dapl::SrqCookie& Completions::claim(std::uint64_t value) {
  dapl::SrqCookie* const cookie = srq_.cookies().claim();
  if (cookie == nullptr) std::abort();  // not a Boost check: producers run in their own threads
  cookie->user.as_64 = value;
  cookie->ep = nullptr;
  cookie->operation = DAT_DTO_RECEIVE;
  cookie->suppressed = false;
  cookie->ib_extension = false;
  cookie->plain = false;
  return *cookie;
}

void Completions::push(std::uint64_t value, bool notify) {
  transport::Completion completion{};
  completion.id = reinterpret_cast<transport::WorkId>(static_cast<dapl::Cookie*>(&claim(value)));
  completion.status = DAT_DTO_SUCCESS;
  completion.operation = DAT_DTO_RECEIVE;
  completion.length = 7;
  cq_.push(completion, notify);
}

void Completions::push_of(const void* ep, std::uint64_t value) {
  transport::Completion completion{};
  completion.id = reinterpret_cast<transport::WorkId>(static_cast<dapl::Cookie*>(&claim(value)));
  completion.qp_context = const_cast<void*>(ep);
  completion.operation = DAT_DTO_RECEIVE;
  cq_.push(completion, true);
}

void Completions::push_suppressed() {
  dapl::SrqCookie& cookie = claim(0);
  cookie.operation = DAT_DTO_SEND;
  cookie.suppressed = true;
  transport::Completion completion{};
  completion.id = reinterpret_cast<transport::WorkId>(static_cast<dapl::Cookie*>(&cookie));
  completion.operation = DAT_DTO_SEND;
  cq_.push(completion, false);
}

int Completions::outstanding() const {
  DAT_SRQ_PARAM param{};
  srq_.query(&param);
  return param.outstanding_dto_count;
}

void await_waiter(DAT_EVD_HANDLE evd) {
  while (!object(evd).waited()) std::this_thread::yield();
}

void finish_agents(const OpenIa& ia) {
  struct Last final : Worker::Job {
    explicit Last(std::promise<void>& promise) : Job(nullptr), done(promise) {}
    void run() noexcept override { done.set_value(); }
    std::promise<void>& done;
  };
  std::promise<void> done;
  std::unique_ptr<Worker::Job> last = std::make_unique<Last>(done);
  BOOST_REQUIRE(dapl::handle_cast<dapl::Ia>(ia.raw)->agents().give(last));
  done.get_future().wait();
}

ServiceThread::ServiceThread()
    : thread_([this] {
        while (!stop_) {
          if (fake::Scheduler::instance().run() == 0) std::this_thread::yield();
        }
      }) {}

ServiceThread::~ServiceThread() {
  stop_ = true;
  thread_.join();
}

}  // namespace udapl::test
